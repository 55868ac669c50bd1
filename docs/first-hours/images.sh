pip install 'maskevidence[hf]'
maskevidence score my-vit-mae photos --resize 224 --out runs/photos
sort -t , -k 5 -g runs/photos/observations.csv | head -n 4
