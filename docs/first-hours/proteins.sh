pip install 'maskevidence[hf]'
maskevidence score my-esm proteins.fasta --out runs/proteins
head -n 4 runs/proteins/observations.csv
maskevidence variants my-esm mutants.csv --wild-type wild_type.fasta --out runs/variants
head -n 4 runs/variants/variants.csv
