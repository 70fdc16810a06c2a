"""Settings for classifying nodes that `decide.py` holds against each other."""

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]
ALL_NODES = {"split.valid_edges": 0.0, "split.test_edges": 0.0, "monitor": "none", "training.precision": "tf32"}
"""No link is held out from learning to classify nodes, as in `tune_all.py`."""
DISCRETE = {"model.mask.distribution": "bernoulli", "model.target": "constant", "model.decoder_width": 64}


def _encoder(layers: int, width: int, dropout: float, activation: str) -> dict[str, Any]:
    own = {"num_layers": layers, "width": width, "dropout": dropout, "activation": activation}
    return {f"model.encoder.{name}": value for name, value in own.items()}


def _training(epochs: int, lr: float, weight_decay: float) -> dict[str, Any]:
    return {"training.epochs": epochs, "training.lr": lr, "training.weight_decay": weight_decay}


def _recovery(weight: float, hidden: float) -> dict[str, Any]:
    return {"model.recovery.weight": weight, "model.recovery.hidden": hidden}


RECOVERING = {
    **DISCRETE,
    **_encoder(2, 512, 0.2, "relu"),
    **_training(200, 0.001, 5e-4),
    **_recovery(1.0, 0.5),
    "model.decoder_dropout": 0.5,
}
AGREEING = {
    **DISCRETE,
    **_encoder(2, 512, 0.8, "relu"),
    **_training(20, 0.01, 5e-5),
    "model.agreement.weight": 2.0,
    "model.agreement.decorrelation": 5e-4,
    "model.decoder_dropout": 0.5,
}
WIDE = {
    **DISCRETE,
    **_encoder(3, 512, 0.5, "elu"),
    **_training(100, 0.001, 0.0),
    "features": "row_normalised",
    "model.decoder_dropout": 0.5,
}
SMALL_RECOVERING = {
    **DISCRETE,
    **_encoder(2, 256, 0.2, "relu"),
    **_training(100, 0.001, 5e-5),
    **_recovery(1.0, 0.3),
    "model.decoder_dropout": 0.0,
}
HUNDRED = _training(100, 0.001, 0.0)
MOSTLY_RECOVERING = {**_encoder(2, 512, 0.5, "relu"), **_training(30, 0.001, 5e-5), **_recovery(10.0, 0.3)}
RECOVERING_DEEPER = {**RECOVERING, "model.encoder.num_layers": 3, "copies": 3}
LESS_DROPOUT = {**WIDE, **_encoder(3, 512, 0.2, "elu"), "copies": 3}
MOST_HIDDEN = {**WIDE, **_training(60, 0.002, 0.0), **_recovery(3.0, 0.7), "training.precision": "bf16"}
"""Draw 10 of `scout.py`."""
WIDE_RECOVERING = {**SMALL_RECOVERING, **_encoder(2, 512, 0.2, "relu"), **_recovery(10.0, 0.3), "copies": 2}
WIDE_RECOVERING_DROPPED = {**WIDE_RECOVERING, **_encoder(2, 512, 0.5, "relu")}
NARROW = {
    **_encoder(2, 64, 0.8, "elu"),
    "model.mask.temperature": 1e-6,
    "model.target": "constant",
    "model.decoder_width": 32,
}
"""What `tune_all.py` found for the other graph of co-authors, CS."""
BANDWIDTHS = {"model.mask.distribution": "boltzmann_gibbs", "model.target": "aligned"}
CANDIDATES: Mapping[str, Mapping[str, Settings | None]] = {
    "cora": {
        "tuned": None,
        "recovery": RECOVERING,
        "recovery, three copies": {**RECOVERING, "copies": 3},
        "recovery, bandwidths, three copies": {**RECOVERING, **BANDWIDTHS, "copies": 3},
        "recovery, three layers, three copies": RECOVERING_DEEPER,
        "recovery, three layers of 1024, three copies": {**RECOVERING_DEEPER, "model.encoder.width": 1024},
    },
    "citeseer": {
        "tuned": None,
        "agreement": AGREEING,
        "agreement, three copies": {**AGREEING, "copies": 3},
        "agreement, bandwidths, three copies": {**AGREEING, **BANDWIDTHS, "copies": 3},
        "agreement, slower, three copies": {**AGREEING, **_training(30, 0.005, 5e-5), "copies": 3},
    },
    "pubmed": {
        "tuned": None,
        "wide, three copies": {**WIDE, "copies": 3},
        "wide, two layers, three copies": {**WIDE, "model.encoder.num_layers": 2, "copies": 3},
        "wide, bandwidths, three copies": {**WIDE, **BANDWIDTHS, "copies": 3},
        "wide, five copies": {**WIDE, "copies": 5},
        "wide, four layers, three copies": {**WIDE, "model.encoder.num_layers": 4, "copies": 3},
        "wide, raw features, three copies": {**WIDE, "features": "raw", "copies": 3},
        "wide and recovery, three copies": {**WIDE, **_recovery(0.3, 0.3), "copies": 3},
        "less dropout": LESS_DROPOUT,
        "less dropout, five copies": {**LESS_DROPOUT, "copies": 5},
        "less dropout, two layers": {**LESS_DROPOUT, "model.encoder.num_layers": 2},
        "no dropout": {**LESS_DROPOUT, "model.encoder.dropout": 0.0},
        "most features hidden": MOST_HIDDEN,
    },
    "photo": {
        "tuned": None,
        "recovery": SMALL_RECOVERING,
        "more recovery": {**SMALL_RECOVERING, **_recovery(3.0, 0.3)},
        "more recovery, two copies": {**SMALL_RECOVERING, **_recovery(3.0, 0.3), "copies": 2},
        "wide, mostly recovery": WIDE_RECOVERING,
        "wide, mostly recovery, 200 epochs": {**WIDE_RECOVERING, "training.epochs": 200},
        "wide, mostly recovery, 300 epochs": {**WIDE_RECOVERING, "training.epochs": 300},
    },
    "physics": {
        "tuned": None,
        "bandwidths, narrow": {**NARROW, **_training(50, 0.01, 5e-5)},
        "bandwidths, narrow, three copies": {**NARROW, **_training(50, 0.01, 5e-5), "copies": 3},
        "discrete": {**DISCRETE, **_encoder(2, 128, 0.5, "elu"), **_training(50, 0.005, 5e-5)},
        "recipe, 50 epochs": _training(50, 0.005, 5e-5),
        "mostly recovery": {**DISCRETE, **MOSTLY_RECOVERING, "model.encoder.width": 256},
    },
    "computers": {
        "tuned": None,
        "recipe, 100 epochs": HUNDRED,
        "recipe and recovery": {**HUNDRED, **_recovery(1.0, 0.3)},
        "recipe and recovery, four copies": {**HUNDRED, **_recovery(1.0, 0.3), "copies": 4},
        "mostly recovery": MOSTLY_RECOVERING,
        "mostly recovery, four copies": {**MOSTLY_RECOVERING, "copies": 4},
        "wide, mostly recovery": WIDE_RECOVERING_DROPPED,
        "wide, mostly recovery, 200 epochs": {**WIDE_RECOVERING_DROPPED, "training.epochs": 200},
    },
}
