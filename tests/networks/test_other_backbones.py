"""Networks from torchvision, from timm and from a user's file, as backbones."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

import clbench.backbone as found_by
from clbench.backbone import BUILT_IN, find, recorded
from clbench.errors import UserError
from clbench.networks import BACKBONES, backbone

RGB, GRAY = (3, 32, 32), (1, 28, 28)
NET = """
from torch import nn


def _helper():
    pass


def features(input_shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], 5))
"""


def test_the_names_that_need_no_torch_are_those_that_are_built():
    assert tuple(BACKBONES) == BUILT_IN
    for name in BUILT_IN:
        assert find(name).name == name
        assert find(name).digest == ""


@pytest.mark.parametrize(
    ("model", "features"),
    [
        ("resnet18", 512),
        ("squeezenet1_1", 512),
        ("mobilenet_v3_small", 1024),
        ("shufflenet_v2_x0_5", 1024),
        ("mnasnet0_5", 1280),
        ("regnet_y_400mf", 440),
        ("efficientnet_b0", 1280),
    ],
)
@pytest.mark.parametrize("shape", [RGB, GRAY])
def test_a_model_of_torchvision_takes_small_images_without_its_classifier(model, features, shape):
    trunk = backbone(f"torchvision:{model}", shape)
    assert trunk.features == features
    assert trunk(torch.rand(2, *shape)).shape == (2, features)
    assert trunk.least_batch == (1 if model == "squeezenet1_1" else 8)
    assert not any(p.shape[0] == 1000 for p in trunk.parameters())


def test_the_bytes_are_those_of_the_model_without_its_classifier():
    from torchvision.models import resnet18

    model = resnet18(num_classes=1)
    whole = sum(p.numel() for p in model.parameters()) - (512 + 1)
    assert sum(p.numel() for p in backbone("torchvision:resnet18", RGB).parameters()) == whole
    gray = sum(p.numel() for p in backbone("torchvision:resnet18", GRAY).parameters())
    assert gray == whole - 2 * 64 * 7 * 7  # the first convolution reads one channel


def test_the_names_of_torchvisions_models_are_read_without_importing_it():
    from torchvision import models

    assert found_by.models_of("torchvision") == set(models.list_models(module=models))


def test_looking_for_the_width_changes_neither_numbers_nor_buffers():
    torch.manual_seed(3)
    trunk = backbone("torchvision:resnet18", RGB)
    after = torch.rand(1)
    torch.manual_seed(3)
    from torchvision.models import resnet18

    model = resnet18()
    assert torch.equal(torch.rand(1), after)
    own = model.state_dict()
    for name, value in trunk.network.state_dict().items():
        assert torch.equal(value, own[name]), name
    assert int(own["bn1.num_batches_tracked"]) == 0
    assert trunk.training


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("torchvision:vit_b_16", RGB, "vit_b_16 cannot take images of 3x32x32: AssertionError"),
        ("torchvision:alexnet", GRAY, "torchvision:alexnet cannot take images of 1x28x28"),
        ("torchvision:resnet19", RGB, "Unknown torchvision model 'resnet19'. Did you mean"),
    ],
)
def test_what_does_not_fit_is_a_sentence(text, shape, said):
    with pytest.raises(UserError) as caught:
        backbone(text, shape)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resnet34", "Unknown backbone 'resnet34'. Did you mean 'resnet18'"),
        ("torchvision:", "name a model, like torchvision:resnet18"),
        ("torchvision:resnet18[weights=IMAGENET1K_V1]", "weights=IMAGENET1K_V1 is no file here"),
        ("torchvision:resnet18[weights=https://x.org/a.pth]", "A run downloads nothing"),
        ("torchvision:resnet18[depth=3]", "write torchvision:resnet18[weights=FILE]"),
        ("mlp[width=3]", "only models of torchvision and timm take [...]"),
        ("./none.py", "there is no file"),
        ("some/folder", "must end in .py"),
        ("a]b", "is no backbone"),
        ("", "is no backbone"),
    ],
)
def test_a_name_that_is_none_is_a_sentence(text, said):
    with pytest.raises(UserError) as caught:
        find(text)
    assert said in str(caught.value)


def test_timm_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setattr(found_by.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^--backbone timm:resnet18 needs timm, .*pip install"):
        find("timm:resnet18")


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_timm_takes_small_images():
    pytest.importorskip("timm")
    trunk = backbone("timm:resnet18", GRAY)
    assert trunk.features == 512
    assert trunk(torch.rand(2, *GRAY)).shape == (2, 512)
    with pytest.raises(UserError, match=r"Unknown timm model 'resnet19'"):
        backbone("timm:resnet19", RGB)


def test_weights_come_from_a_local_file_and_their_hash_is_in_the_name(tmp_path):
    from torchvision.models import squeezenet1_1

    torch.manual_seed(0)
    model = squeezenet1_1()
    path = tmp_path / "w.pth"
    torch.save(model.state_dict(), path)
    text = f"torchvision:squeezenet1_1[weights={path}]"
    network = find(text)
    assert network.name == f"torchvision:squeezenet1_1[weights={network.weights_sha256[:12]}]"
    assert network.digest == network.weights_sha256
    trunk = backbone(text, RGB)
    assert torch.equal(trunk.network.features[0].weight, model.features[0].weight)
    with pytest.raises(UserError, match=r"do not fit .*size mismatch for features.0.weight"):
        backbone(text, GRAY)

    with torch.no_grad():
        model.features[0].weight.zero_()
    torch.save(model.state_dict() | {"more": torch.zeros(3)}, path)
    assert find(text).name != network.name
    with pytest.raises(UserError, match="has changed since this command read it"):
        backbone(network, RGB)


def test_weights_that_would_run_code_or_are_none_are_refused(tmp_path, monkeypatch):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    path = tmp_path / "w.pth"
    for content in ({"fc.weight": Evil()}, [1, 2], {"conv1.weight": 3}):
        torch.save(content, path)
        with pytest.raises(UserError, match="holds no weights"):
            backbone(f"torchvision:resnet18[weights={path}]", RGB)
    assert not (tmp_path / "ran").exists()


def test_a_users_function_is_found_in_its_file(tmp_path):
    path = tmp_path / "my_net.py"
    path.write_text(NET)
    network = find(str(path))
    assert network.name.startswith("my-net@")
    assert backbone(network, GRAY).features == 5
    assert find("my_net.py", folder=tmp_path).name == network.name
    path.write_text(NET + "\n\ndef other(shape):\n    return 1\n")
    assert find(f"{path}:features").name != network.name  # other code
    with pytest.raises(UserError, match=r"must hold a function backbone\(input_shape\)"):
        find(str(path))
    with pytest.raises(UserError, match=r"must return an nn.Module; it returned a int"):
        backbone(f"{path}:other", GRAY)
    assert backbone(network, GRAY).features == 5  # the code that this process has read
    path.write_text(NET + "# one\n")
    fresh = find(str(path))
    path.write_text(NET + "# two\n")
    with pytest.raises(UserError, match="has changed since this command read it"):
        backbone(fresh, GRAY)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "raised ZeroDivisionError"),
        ("return nn.Linear(3, 4)", "cannot take images of 1x28x28: RuntimeError"),
        ("return nn.Flatten(0)", "must give features for each image"),
        ("return nn.LSTM(28, 3)", "cannot take images"),
        ("class N(nn.Module):\n        def forward(s, x): return x, x\n    return N()", "a tuple"),
    ],
)
def test_a_users_function_that_fails_is_a_sentence(tmp_path, body, said):
    path = tmp_path / "net.py"
    path.write_text(f"from torch import nn\n\ndef backbone(input_shape):\n    {body}\n")
    with pytest.raises(UserError) as caught:
        backbone(str(path), GRAY)
    assert said in str(caught.value)


def test_a_package_offers_a_backbone(tmp_path, monkeypatch):
    (tmp_path / "its_nets.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("theirs", "its_nets:features", "clbench.backbones")
    monkeypatch.setattr(found_by, "entry_points", lambda group: [point])
    assert find("theirs").name.startswith("theirs@")
    assert backbone("theirs", GRAY).features == 5
    with pytest.raises(UserError, match=r"Unknown backbone 'their'. Did you mean 'theirs'"):
        find("their")


def test_a_record_names_no_file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    for name in (str(path), "./net.py", "net@3f2a9c1b2d4e", f"timm:x[weights={path}]"):
        with pytest.raises(UserError, match="which a record cannot name"):
            recorded(name)
    assert recorded("torchvision:resnet18").name == "torchvision:resnet18"
