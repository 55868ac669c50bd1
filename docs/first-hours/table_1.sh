pip install 'maskevidence[plots]'
maskevidence paper table-1 --quick --out paper
cat paper/table_1.csv
