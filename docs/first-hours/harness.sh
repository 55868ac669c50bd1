pip install 'maskevidence[lm-eval]'
maskevidence lm-eval --model_args pretrained=my-bert --tasks arc_easy --limit 100 --output_path out
head -n 20 out/evidence.json
