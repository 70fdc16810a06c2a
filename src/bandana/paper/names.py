"""How methods, data sets and metrics are called where people read; files keep the names that commands take."""

from collections.abc import Mapping

METHODS: Mapping[str, str] = {
    "gae": "GAE",
    "arga": "ARGA",
    "vgae": "VGAE",
    "arvga": "ARVGA",
    "sig_vae": "SIG-VAE",
    "seegera": "SeeGera",
    "grace": "GRACE",
    "gca": "GCA",
    "costa": "COSTA",
    "cca_ssg": "CCA-SSG",
    "t_bgrl": "T-BGRL",
    "graphmae": "GraphMAE",
    "graphmae2": "GraphMAE2",
    "s2gae": "S2GAE",
    "maskgae": "MaskGAE",
    "maskgae_edge": "MaskGAE-edge",
    "maskgae_path": "MaskGAE-path",
    "bandana": "Bandana",
    "gae_tuned": "GAE-tuned",
    "raw_features": "raw features",
    "smoothed_features": "smoothed features",
    "untrained_encoder": "untrained encoder",
}
DATASETS: Mapping[str, str] = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "photo": "Photo",
    "computers": "Computers",
    "cs": "CS",
    "physics": "Physics",
    "wikics": "Wiki-CS",
    "digits": "Digits",
    "karate": "Karate Club",
    "swiss_roll": "Swiss Roll",
    "two_moon": "Two-moon",
}
_METRICS = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", **{f"hits@{k}": f"Hits@{k}" for k in (20, 50, 100)}}
_ALL = {**METHODS, **DATASETS, **_METRICS}


def called(name: str) -> str:
    """A name of a row or column for readers; what follows it, such as in ``cs 10 %``, stays, and so do other names."""
    if name in _ALL:
        return _ALL[name]
    end = next((place for place, sign in enumerate(name) if sign in " ,"), len(name))
    return _ALL.get(name[:end], name[:end]) + name[end:]
