"""The paper's five streams: sizes, orders, inputs."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from clbench import UserError, data
from clbench.data import DataSet, Images
from clbench.protocol import Protocol
from clbench.registry import declarations, import_class
from clbench.stream import Stream

# images of each digit in MNIST
TRAIN = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)


def made_up(name: str, train: list[int], test: list[int], shape: tuple[int, int, int]) -> DataSet:
    """A data set of black images with so many of each class; takes no memory."""

    def part(counts: list[int]) -> Images:
        labels = np.repeat(np.arange(len(counts)), counts)
        return Images(np.broadcast_to(np.zeros((), np.uint8), (len(labels), *shape)), labels)

    parts = {"train": part(train), "test": part(test)}
    return DataSet(name, parts, len(train), "0" * 64, "")


def stream(name: str, sets: dict[str, DataSet], seed: int = 0, **params: object) -> Stream:
    benchmark = import_class(declarations("benchmark")[name])(**params)
    return Stream(
        benchmark.sources(sets, seed),
        name=name,
        backbone=benchmark.backbone,
        protocol=Protocol(),
        seed=seed,
        scenario=benchmark.scenario,
    )


def sizes(made: Stream) -> list[tuple[int, int, int]]:
    return [(len(t.train), len(t.valid), len(t.test)) for t in made.tasks]


def mnist() -> DataSet:
    return made_up("mnist", list(TRAIN), list(TEST), (1, 28, 28))


def test_split_mnist_has_the_sizes_of_the_paper():
    made = stream("split-mnist", {"mnist": mnist()})
    assert sizes(made) == [
        (10766, 1899, 2115),
        (10276, 1813, 2042),
        (9574, 1689, 1874),
        (10356, 1827, 1986),
        (10030, 1770, 1983),
    ]
    assert [t.classes for t in made.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_permuted_mnist_has_the_sizes_of_the_paper_and_a_permutation_a_task():
    made = stream("permuted-mnist", {"mnist": mnist()}, tasks=3)
    assert sizes(made) == [(51000, 9000, 10000)] * 3
    ramp = torch.arange(784).remainder(251).to(torch.uint8).view(1, 1, 28, 28)
    seen = [task.train.view(ramp) for task in made.tasks]
    for view in seen:
        assert torch.equal(view.flatten().sort().values, ramp.flatten().sort().values)
    assert not torch.equal(seen[0], ramp)
    assert not torch.equal(seen[0], seen[1])
    other_seed = stream("permuted-mnist", {"mnist": mnist()}, seed=1, tasks=1)
    assert not torch.equal(other_seed.tasks[0].train.view(ramp), seen[0])


@pytest.mark.parametrize(
    ("name", "source", "shape"),
    [
        ("split-cifar100", "cifar100", (3, 32, 32)),
        ("split-miniimagenet", "miniimagenet", (3, 84, 84)),
    ],
)
def test_hundred_classes_in_an_order_from_the_seed(name, source, shape):
    sets = {source: made_up(source, [500] * 100, [100] * 100, shape)}
    first, again, other = (stream(name, sets, seed) for seed in (0, 0, 1))
    assert sizes(first) == [(2125, 375, 500)] * 20
    orders = [[c for t in s.tasks for c in t.classes] for s in (first, again, other)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(100))
    assert len(stream(name, sets, tasks=10).tasks[0].classes) == 10
    with pytest.raises(UserError, match="100 classes, which cannot be split into 7"):
        stream(name, sets, tasks=7)


FIVE = {
    "cifar10": made_up("cifar10", [5000] * 10, [1000] * 10, (3, 32, 32)),
    "notmnist": made_up("notmnist", [1827] * 5 + [1826] * 5, [46] * 9 + [45], (1, 28, 28)),
    "mnist": mnist(),
    "svhn": made_up("svhn", [7326] * 7 + [7325] * 3, [2603] * 8 + [2604] * 2, (3, 32, 32)),
    "fashion-mnist": made_up("fashion-mnist", [6000] * 10, [1000] * 10, (1, 28, 28)),
}
ORDER = "mnist/svhn/cifar10/notmnist/fashion-mnist"


def test_five_datasets_have_the_sizes_of_the_paper():
    made = stream("five-datasets", FIVE, order=ORDER)
    assert [t.title for t in made.tasks] == ORDER.split("/")
    assert sizes(made) == [
        (51000, 9000, 10000),
        (62269, 10988, 26032),
        (42500, 7500, 10000),
        (15526, 2739, 459),
        (51000, 9000, 10000),
    ]
    assert {t.test.inputs(slice(0, 2)).shape for t in made.tasks} == {(2, 3, 32, 32)}


def test_five_datasets_come_in_an_order_from_the_seed():
    orders = {seed: [t.title for t in stream("five-datasets", FIVE, seed).tasks] for seed in (0, 1)}
    assert sorted(orders[0]) == sorted(FIVE)
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("order", "words"), [("mnist/svhn", "once"), ("mnist/svhm", "Did you mean 'svhn'")]
)
def test_an_order_must_name_each_data_set_once(order, words):
    with pytest.raises(UserError, match=words):
        stream("five-datasets", FIVE, order=order)


def test_small_gray_images_get_a_black_border_and_three_channels():
    white = DataSet(
        "mnist",
        {
            part: Images(np.full((40, 1, 28, 28), 255, np.uint8), np.arange(40) % 10)
            for part in ("train", "test")
        },
        10,
        "",
        "",
    )
    made = stream("five-datasets", FIVE | {"mnist": white}, order=ORDER)
    image = made.tasks[0].test.inputs(slice(0, 1))[0]
    inside, border = (1 - 0.1) / 0.2752, (0 - 0.1) / 0.2752
    assert image.shape == (3, 32, 32)
    torch.testing.assert_close(image[:, 2:30, 2:30], torch.full((3, 28, 28), inside))
    torch.testing.assert_close(image[:, :2], torch.full((3, 2, 32), border))
    torch.testing.assert_close(image[:, :, 30:], torch.full((3, 32, 2), border))


@pytest.fixture(scope="session")
def real_root() -> Path:
    beside = Path(__file__).parents[3] / "shared" / "data"
    for folder in (Path(os.environ.get("CLBENCH_DATA", beside)), beside):
        if folder.is_dir():
            return folder
    pytest.skip("no real data: set CLBENCH_DATA to a folder that has some")


def test_real_mnist_and_cifar100_give_the_sizes_of_the_paper(real_root, tmp_path):
    sets = {n: data.load(n, real_root, cache=tmp_path) for n in ("mnist", "cifar100")}
    made = stream("split-mnist", sets)
    assert sizes(made)[0] == (10766, 1899, 2115)
    x = made.tasks[0].train.inputs()
    assert abs(float(x.mean())) < 0.2  # scaled to [0, 1], then by mean and std
    assert 0.8 < float(x.std()) < 1.2
    assert sizes(stream("split-cifar100", sets)) == [(2125, 375, 500)] * 20


def test_garbled_images_are_the_bytes_of_the_first_seven_rows_as_floats():
    pixels = np.arange(784, dtype=np.uint8).reshape(1, 1, 28, 28)
    images = Images(np.repeat(pixels, 40, 0), np.arange(40) % 10)
    odd = DataSet("mnist", {"train": images, "test": images}, 10, "", "")
    made = stream("five-datasets", FIVE | {"mnist": odd}, order=ORDER, garbled=True)
    seen = made.tasks[0].test.view(torch.from_numpy(pixels))[0, 0, 2:30, 2:30]
    expected = pixels.flatten()[:196].astype("<f4").tobytes()
    assert seen.contiguous().numpy().tobytes() == expected


def test_rotated_mnist_turns_all_digits_by_angles_from_the_seed():
    made = stream("rotated-mnist", {"mnist": mnist()}, tasks=3)
    angles = np.random.RandomState(0).uniform(0, 180, 3)
    assert [t.title for t in made.tasks] == [f"{angle:.1f} degrees" for angle in angles]
    assert made.scenario == "domain"
    assert made.heads == [10]


def test_a_rotation_moves_each_pixel_as_the_rotation_matrix_says():
    from clbench.benchmarks.rotated_mnist import turn

    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.integers(0, 255, (1, 1, 9, 9)).astype(np.uint8))
    assert torch.equal(turn(90.0, image), image.rot90(1, (2, 3)))  # counter-clockwise
    turned = turn(30.0, image.float())[0, 0]
    cos, sin = np.cos(np.pi / 6), np.sin(np.pi / 6)
    for row, column in ((4, 4), (3, 6), (6, 2), (5, 5)):
        down, right = row - 4, column - 4
        y, x = sin * right + cos * down + 4, cos * right - sin * down + 4
        y0, x0 = int(np.floor(y)), int(np.floor(x))
        around = image[0, 0, y0 : y0 + 2, x0 : x0 + 2].double().numpy()
        fy, fx = y - y0, x - x0
        wanted = np.array([1 - fy, fy]) @ around @ np.array([1 - fx, fx])
        assert float(turned[row, column]) == pytest.approx(wanted, abs=1e-3)


def test_split_cifar10_has_five_tasks_and_a_class_incremental_form():
    data = made_up("cifar10", [50] * 10, [10] * 10, (3, 32, 32))
    made = stream("split-cifar10", {"cifar10": data}, scenario="class")
    assert [t.classes for t in made.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert made.scenario == "class"
    assert made.seen == [2, 4, 6, 8, 10]
