pip install 'maskevidence[plots]'
maskevidence select ppca,factor-analysis table.csv --components 1-10 --out runs/chosen
maskevidence impute runs/chosen/model table.csv --out filled.csv
head -n 3 filled.csv
