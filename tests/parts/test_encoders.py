"""The encoder against dense matrices and hand-written batch norm, and one layer of it against PyG."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from bandana.engine.dropout import keep_mask, keep_scale
from bandana.engine.propagate import EdgeWeights, gcn_weights
from bandana.graph import Features, Graph, SparseFeatures, compact, identity_features
from bandana.method import GraphSpec
from bandana.parts.encoders import ActivationName, EncoderConfig, GCNEncoder, Stack, activation, project

GraphFactory = Callable[..., Graph]
SMALL = EncoderConfig(num_layers=2, width=4, dropout=0.0)


def build(graph: Graph, config: EncoderConfig = SMALL, seed: int = 0) -> GCNEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = GCNEncoder(config, GraphSpec.of(graph))
        for bias in encoder.biases:
            torch.nn.init.normal_(bias)
        for norm in encoder.norms:
            for tensor in (norm.weight, norm.bias, norm.running_mean):
                torch.nn.init.normal_(tensor)
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)
    return encoder


def random_weights(graph: Graph, seed: int) -> EdgeWeights:
    generator = torch.Generator().manual_seed(seed)
    return EdgeWeights(
        torch.rand(graph.num_edges, generator=generator), torch.rand(graph.num_nodes, generator=generator)
    )


def dense(graph: Graph, weights: EdgeWeights) -> Tensor:
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes)
    entries = zip(graph.structure.row.tolist(), graph.structure.col.tolist(), weights.values.tolist(), strict=True)
    for row, col, value in entries:
        matrix[row, col] = value
    return matrix + torch.diag(weights.loop)


def naive_batch_norm(x: Tensor, norm: Any, training: bool) -> Tensor:
    columns = []
    for c in range(x.shape[1]):
        mean = sum(x[:, c]) / len(x) if training else norm.running_mean[c]
        var = sum((x[:, c] - mean) ** 2) / len(x) if training else norm.running_var[c]
        columns.append((x[:, c] - mean) / (var + 1e-5).sqrt() * norm.weight[c] + norm.bias[c])
    return torch.stack(columns, dim=1)


def naive_layers(encoder: GCNEncoder, x: Tensor, matrices: list[Tensor]) -> list[Tensor]:
    """``act(BN(Â X W))`` layer by layer, with every matrix written out."""
    activations = {
        "elu": lambda v: torch.where(v > 0, v, v.exp() - 1),
        "relu": lambda v: v.clamp(min=0),
        "none": lambda v: v,
    }
    outputs = []
    for depth, matrix in enumerate(matrices):
        x = matrix @ x @ encoder.weights[depth]
        if encoder.config.batch_norm:
            x = naive_batch_norm(x, encoder.norms[depth], encoder.training)
        else:
            x = x + encoder.biases[depth]
        x = activations[encoder.config.activation](x)
        outputs.append(x)
    return outputs


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("activation", ["elu", "relu", "none"])
def test_layers_are_those_of_dense_matrices(
    random_graph: GraphFactory, batch_norm: bool, training: bool, directed: bool, activation: str
) -> None:
    graph = random_graph(12, 25, isolated=2, directed=directed)
    encoder = build(graph, replace(SMALL, batch_norm=batch_norm, activation=activation)).train(training)
    weights = [random_weights(graph, layer) for layer in range(2)]
    expected = naive_layers(encoder, graph.x, [dense(graph, each) for each in weights])
    outputs = encoder(graph.x, graph.structure, weights)
    assert [output.shape for output in outputs] == [(12, 4), (12, 4)]
    for output, reference in zip(outputs, expected, strict=True):
        torch.testing.assert_close(output, reference, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad(outputs[-1].square().sum(), list(encoder.parameters()))
    references = torch.autograd.grad(expected[-1].square().sum(), list(encoder.parameters()))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_one_layer_is_the_graph_convolution_of_pyg(random_graph: GraphFactory, directed: bool, weighted: bool) -> None:
    graph = random_graph(isolated=2, directed=directed, weighted=weighted)
    encoder = build(graph, EncoderConfig(num_layers=1, width=5, batch_norm=False, activation="none")).eval()
    theirs = GCNConv(graph.num_features, 5).eval()
    with torch.no_grad():
        theirs.lin.weight.copy_(encoder.weights[0].T)
        theirs.bias.copy_(encoder.biases[0])
    (output,) = encoder(graph.x, graph.structure, [gcn_weights(graph.structure, graph.weight)])
    torch.testing.assert_close(output, theirs(graph.x, graph.edge_index, graph.weight), rtol=1e-12, atol=1e-12)


def bag_of_words(num_nodes: int = 30, num_words: int = 50) -> tuple[Tensor, SparseFeatures]:
    generator = torch.Generator().manual_seed(0)
    words = torch.rand(num_nodes, num_words, generator=generator)
    words = words * (torch.rand(num_nodes, num_words, generator=generator) < 0.04)
    sparse = compact(words)
    assert isinstance(sparse, SparseFeatures)
    return words, sparse


@pytest.mark.usefixtures("float64")
def test_sparse_features_give_the_values_and_gradients_of_dense_ones(random_graph: GraphFactory) -> None:
    words, sparse = bag_of_words()
    graph = replace(random_graph(), x=words)
    encoder = build(graph)
    weights = [random_weights(graph, layer) for layer in range(2)]

    def run(x: Features) -> tuple[Tensor, ...]:
        outputs = encoder(x, graph.structure, weights)
        return *outputs, *torch.autograd.grad(outputs[-1].square().sum(), list(encoder.parameters()))

    for ours, reference in zip(run(sparse), run(words), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-10, atol=1e-10)


def test_dropout_of_sparse_features_acts_on_the_stored_values() -> None:
    words, sparse = bag_of_words()
    weight = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    kept = keep_mask(sparse.values.shape, 0.5, torch.Generator().manual_seed(2))
    survivors = sparse._replace(values=sparse.values * kept * keep_scale(0.5)).dense()
    assert int((survivors != 0).sum()) < int((words != 0).sum())
    out = project(sparse, weight, 0.5, torch.Generator().manual_seed(2))
    torch.testing.assert_close(out, survivors @ weight)


@pytest.mark.usefixtures("float64")
def test_identity_features_learn_a_vector_for_every_node(random_graph: GraphFactory) -> None:
    graph = random_graph(num_features=0)
    assert isinstance(graph.x, SparseFeatures)
    encoder = build(graph)
    assert encoder.weights[0].shape == (30, 4)
    weights = [random_weights(graph, layer) for layer in range(2)]
    sparse = encoder(graph.x, graph.structure, weights)
    full = encoder(torch.eye(30), graph.structure, weights)
    torch.testing.assert_close(sparse[-1], full[-1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(project(identity_features(30), encoder.weights[0], 0, None), encoder.weights[0])


def test_node_embeddings_replace_the_features(random_graph: GraphFactory) -> None:
    graph = random_graph()
    encoder = build(graph, replace(SMALL, node_embedding=7))
    assert encoder.embedding is not None
    assert encoder.embedding.shape == (30, 7)
    assert encoder.weights[0].shape == (7, 4)
    weights = [gcn_weights(graph.structure)] * 2
    encoder.eval()
    outputs = encoder(graph.x, graph.structure, weights)
    assert encoder(graph.x * 100, graph.structure, weights)[-1].equal(outputs[-1])
    bare = build(replace(graph, x=encoder.embedding.detach())).eval()
    bare.load_state_dict({name: tensor for name, tensor in encoder.state_dict().items() if name != "embedding"})
    torch.testing.assert_close(bare(encoder.embedding.detach(), graph.structure, weights)[-1], outputs[-1])
    outputs[-1].sum().backward()
    assert encoder.embedding.grad is not None
    assert encoder.embedding.grad.any()


def test_dropout_needs_a_generator_and_repeats_with_it(random_graph: GraphFactory) -> None:
    graph = random_graph()
    encoder = build(graph, replace(SMALL, dropout=0.5))
    weights = [gcn_weights(graph.structure)] * 2

    def run(seed: int | None) -> Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return encoder(graph.x, graph.structure, weights, generator)[-1]

    assert run(1).equal(run(1))
    assert not run(1).equal(run(2))
    undropped = build(graph)(graph.x, graph.structure, weights)[-1]
    assert run(None).equal(undropped)


def test_dropout_falls_on_the_input_of_every_layer(random_graph: GraphFactory) -> None:
    graph = random_graph()
    encoder = build(graph, replace(SMALL, dropout=0.5, batch_norm=False))
    weights = [gcn_weights(graph.structure)] * 2
    generator = torch.Generator().manual_seed(3)
    masks = [keep_mask(shape, 0.5, generator) * keep_scale(0.5) for shape in (graph.x.shape, (30, 4))]
    matrix = dense(graph, weights[0])
    first = torch.nn.functional.elu(matrix @ (graph.x * masks[0]) @ encoder.weights[0] + encoder.biases[0])
    second = torch.nn.functional.elu(matrix @ (first * masks[1]) @ encoder.weights[1] + encoder.biases[1])
    outputs = encoder(graph.x, graph.structure, weights, torch.Generator().manual_seed(3))
    torch.testing.assert_close(outputs[0], first)
    torch.testing.assert_close(outputs[1], second)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_initial_values(batch_norm: bool) -> None:
    torch_state = torch.get_rng_state()
    encoder = GCNEncoder(EncoderConfig(width=40, batch_norm=batch_norm, node_embedding=30), GraphSpec(500, 9))
    torch.set_rng_state(torch_state)
    assert encoder.embedding is not None
    for weight in (*encoder.weights, encoder.embedding):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.9 * bound < float(weight.detach().abs().max()) <= bound
    assert (len(encoder.norms), len(encoder.biases)) == ((2, 0) if batch_norm else (0, 2))
    assert not any(bias.any() for bias in encoder.biases)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers: must be from 1 to 1000, got 0"),
        ({"num_layers": 10**30}, "num_layers: must be from 1 to 1000, got 10{30}"),
        ({"width": 0}, "width: must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout: must lie in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout: must lie in \[0, 1\), got -0.1"),
        ({"dropout": float("nan")}, r"dropout: must lie in \[0, 1\), got nan"),
        ({"node_embedding": -1}, "node_embedding: must be 0 or a width, got -1"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        EncoderConfig(**changes)


def test_configuration_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SMALL.width = 5  # type: ignore[misc]


WIDTHS = (6, 5, 4, 3)
TORCH_ACTIVATIONS: dict[ActivationName, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "leaky": lambda: nn.LeakyReLU(0.2291666666666667),
    "none": nn.Identity,
}


def stack(**options: Any) -> Stack:
    """Three layers whose biases, norms and slopes are not what they start as."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = Stack(WIDTHS, **options)
        for parameter in built.parameters():
            nn.init.normal_(parameter)
    return built


def torch_layers(ours: Stack, options: dict[str, Any]) -> list[nn.Module]:
    """The same perceptron from torch's own layers, with our weights."""
    layers: list[nn.Module] = []
    name, last = options.get("name", "relu"), len(WIDTHS) - 2
    has_bias = options.get("bias", True) and not options.get("batch_norm")
    assert len(ours.biases) == (len(ours.weights) if has_bias else 0)
    for depth, weight in enumerate(ours.weights):
        linear = nn.Linear(*weight.shape, bias=has_bias)
        linear.weight = nn.Parameter(weight.detach().T.clone())
        if has_bias:
            linear.bias = nn.Parameter(ours.biases[depth].detach().clone())
        norm: nn.Module = nn.Identity()
        if options.get("batch_norm"):
            norm = nn.BatchNorm1d(weight.shape[1], momentum=options.get("momentum", 0.1))
            norm.load_state_dict(ours.norms[depth].state_dict())
        act = nn.Identity() if depth == last and not options.get("activate_last", True) else TORCH_ACTIVATIONS[name]()
        act.load_state_dict(ours.activations[depth].state_dict())
        layers.append(nn.Sequential(linear, norm, act))
    return layers


STACKS: list[dict[str, Any]] = [
    {},
    {"name": "elu"},
    {"name": "none"},
    {"name": "leaky"},
    {"name": "prelu"},
    {"name": "prelu", "shared_activation": True},
    {"name": "prelu", "activate_last": False, "bias": False},
    {"name": "leaky", "activate_last": False},
    {"bias": False},
    {"batch_norm": True, "momentum": 0.01},
    {"batch_norm": True, "name": "prelu", "shared_activation": True, "activate_last": False},
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", STACKS, ids=lambda options: " ".join(map(str, options.values())) or "plain")
def test_without_a_graph_a_stack_is_torchs_perceptron(random_graph: GraphFactory, options: dict[str, Any]) -> None:
    x, ours = random_graph(11, 20).x, stack(**options)
    layers = torch_layers(ours, options)
    hidden, expected = x, []
    for layer in layers:
        hidden = layer(hidden)
        expected.append(hidden)
    outputs = ours(x)
    assert [output.shape[1] for output in outputs] == list(WIDTHS[1:])
    for output, reference in zip(outputs, expected, strict=True):
        torch.testing.assert_close(output, reference, rtol=1e-12, atol=1e-12)
    for norm, layer in zip(ours.norms, layers, strict=False):
        assert isinstance(layer, nn.Sequential)
        torch.testing.assert_close(norm.running_mean, layer[1].running_mean)
        torch.testing.assert_close(norm.running_var, layer[1].running_var)
    outputs[-1].square().sum().backward()
    expected[-1].square().sum().backward()
    for weight, layer in zip(ours.weights, layers, strict=True):
        torch.testing.assert_close(weight.grad, layer[0].weight.grad.T, rtol=1e-9, atol=1e-9)  # type: ignore[index]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", [{"name": "prelu"}, {"name": "leaky", "bias": False, "activate_last": False}])
def test_with_a_graph_every_layer_mixes_neighbours_first(random_graph: GraphFactory, options: dict[str, Any]) -> None:
    graph, ours = random_graph(11, 20, isolated=2), stack(**options)
    weights = [random_weights(graph, layer) for layer in range(3)]
    hidden = graph.x
    for layer, each, output in zip(
        torch_layers(ours, options), weights, ours(graph.x, graph.structure, weights), strict=True
    ):
        hidden = layer(dense(graph, each) @ hidden)
        torch.testing.assert_close(output, hidden, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "slopes"),
    [
        ({"name": "prelu"}, 3),
        ({"name": "prelu", "activate_last": False}, 2),
        ({"name": "prelu", "shared_activation": True}, 1),
        ({"name": "prelu", "shared_activation": True, "activate_last": False}, 1),
        ({"name": "leaky"}, 0),
    ],
)
def test_learned_slopes_are_one_per_layer_or_one_for_all(options: dict[str, Any], slopes: int) -> None:
    built = Stack(WIDTHS, **options)
    learned = {id(parameter): parameter for parameter in built.activations.parameters()}
    assert len(learned) == slopes
    assert all(parameter.tolist() == [0.25] for parameter in learned.values())


def test_one_layer_may_have_an_activation_or_none() -> None:
    x = torch.tensor([[-1.0], [2.0]])
    for last, expected in ((True, [[0.0], [2.0]]), (False, [[-1.0], [2.0]])):
        built = Stack((1, 1), activate_last=last)
        nn.init.ones_(built.weights[0])
        assert built(x)[-1].tolist() == expected


def test_the_leaky_slope_is_that_of_rrelu_outside_training() -> None:
    x = torch.linspace(-3, 3, 13)
    torch.testing.assert_close(activation("leaky")(x.clone()), nn.RReLU().eval()(x))
    assert float(activation("leaky")(torch.tensor(-1.0))) == pytest.approx(-0.2292, abs=5e-5)


@pytest.mark.parametrize("momentum", [0.1, 0.01, 1.0])
def test_momentum_is_the_share_of_the_newest_batch(random_graph: GraphFactory, momentum: float) -> None:
    x = random_graph().x
    built = Stack((6, 4), batch_norm=True, momentum=momentum)
    assert not built.biases
    built(x)
    products = x @ built.weights[0]
    torch.testing.assert_close(built.norms[0].running_mean, momentum * products.mean(0))
    torch.testing.assert_close(built.norms[0].running_var, 1 - momentum + momentum * products.var(0))
