# pip install maskevidence
from my_vae import decoder, encoder  # your networks; this encoder returns mean and log variance

import maskevidence as me

table = me.data.read_table("held_out.csv")
model = me.models.VAE(encoder, decoder, likelihood="bernoulli", scale="log_variance")
bound = model.annealed_evidence(table.values)  # a lower bound, as tight as draws can make it
print(bound.mean, "±", bound.draw_se, "nats per row")
print(me.estimate_evidence(model, table))  # the area under the curve of masked prediction
