pip install 'maskevidence[plots]'
python -m paper table-1 --quick --out table-1
cat table-1/table_1.csv
