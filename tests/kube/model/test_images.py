"""Image references: what a kubelet would take, and what is likely meant by what it would not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.model.images import LONGEST_REFERENCE, fault, likely_reference

GOOD = [
    "python",
    "python:3.13-slim",
    "library/python:3",
    "docker.io/library/python:3",
    "registry.example.com:5000/team/trainer:1.4",
    "localhost/x",
    "localhost:5000/a/b__c/d-e--f.g_h:V1.0_x",
    "[2001:db8::1]:5000/x:y",
    "Registry.Example.com/team/x",
    "10.0.0.1/x",
    "python@sha256:" + "a" * 64,
    "python:3@sha512:" + "0" * 128,
    "us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/tpu:jax0.8.1-rev1",
    "python:" + "x" * 128,
]
BAD = {
    "pytorch/pytorch: 2.7.1": ("it has a blank in it", "pytorch/pytorch:2.7.1"),
    "python:3\n": ("it has a blank in it", "python:3"),
    "PyTorch/pytorch:2.7": ('"PyTorch", for its upper case, is read as the host of a registry', "pytorch/pytorch:2.7"),
    "Python:3.13": ("a repository is written in lower case", "python:3.13"),
    "docker.io/PyTorch/x:V1": ("a repository is written in lower case", "docker.io/pytorch/x:V1"),
    "python:3:latest": ('"3:latest" is not a tag', ""),
    "https://docker.io/python:3": ("it is a URL", "docker.io/python:3"),
    "docker://python:3": ("it is a URL", "python:3"),
    "python@sha256:abc": ("a digest of sha256 has 64 digits of 0-9 and a-f", ""),
    "python@sha256:" + "A" * 64: ("a digest of sha256 has 64 digits of 0-9 and a-f", ""),
    "python@md5:" + "0" * 32: ("a digest begins with one of sha256:, sha384:, sha512:", ""),
    "python:": ("the tag is missing", "python"),
    "python:" + "x" * 129: (f'"{"x" * 129}" is not a tag', ""),
    "f" * 64: ("it is an image's id, which no registry serves", ""),
    "/python": ("it is not of the form HOST/PATH:TAG", ""),
    "a//b": ("it is not of the form HOST/PATH:TAG", ""),
    "a/b/": ("it is not of the form HOST/PATH:TAG", ""),
    "-a.example/b": ('"-a.example" is not a host of a registry', ""),
    "$(IMAGE)": ("a repository is written in lower case", ""),
    "{{.Values.image}}": ("a repository is written in lower case", ""),
    "a" * (LONGEST_REFERENCE + 1): ("it is too long", ""),
    "a" * 256: ("it is not of the form HOST/PATH:TAG", ""),
}


@pytest.mark.parametrize("image", GOOD)
def test_a_good_reference_has_no_fault(image):
    assert fault(image) == ""


@pytest.mark.parametrize("image", BAD)
def test_a_bad_reference_is_told_with_what_is_meant(image):
    assert (fault(image), likely_reference(image)) == BAD[image]


@given(st.text(alphabet="aB3.:/@_- \n$[]sha256", max_size=80))
def test_what_is_proposed_is_good_and_another_one(image):
    if proposed := likely_reference(image):
        assert fault(proposed) == ""
        assert proposed != image


def test_no_reference_takes_long():
    for image in ("a-" * 290, "a" * 500 + "!", "a__" * 190, "a./" * 190, "A." * 250 + "/!", ":" * 600):
        assert fault(image)
