pip install 'maskevidence[hf]'
maskevidence score my-bert sentences.csv --text sentence --out runs/mine
maskevidence score other-bert sentences.csv --text sentence --out runs/other
head -n 4 runs/mine/observations.csv
maskevidence compare runs/mine runs/other
