"""`jobset validate` in folders of kustomize."""

import io

import yaml

from tests.support.objects.jobsets import jobset


def test_a_patch_of_kustomize_is_told_how_to_check_what_comes_out(validate, write, tmp_path):
    (tmp_path / "over lay").mkdir()
    patch = {**jobset(name="a"), "spec": {"replicatedJobs": [{"name": "workers", "replicas": 3}]}}
    file = write(yaml.safe_dump(patch), "over lay/p.yaml")
    hint = "; if this is a patch of kustomize, check what comes out: `kubectl kustomize 'over lay' | jobset validate -`"
    assert hint not in validate(file)[1]
    write("resources: [p.yaml]\n", "over lay/kustomization.yaml")
    code, out, _ = validate(file)
    assert (code, f'add "template": an object{hint}\n' in out) == (1, True)


def test_what_kustomize_has_rendered_is_told_no_such_thing(validate, write, monkeypatch):
    write("resources: [p.yaml]\n", "kustomization.yaml")
    rendered = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec: {replicatedJobs: [{name: b}]}\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rendered.encode())))
    code, out, _ = validate("-")
    assert (code, 'add "template"' in out, "kustomize" in out) == (1, True, False)
