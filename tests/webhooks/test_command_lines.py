"""A command line that is written as one text: the answer has the list to write instead."""

import pytest

from tests.support.corpus.mutations import SCHEMA
from tests.support.objects.jobsets import jobset, rjob
from webhooks.jobset.command_lines import MAX_COMMAND_LENGTH
from webhooks.jobset.schema.schema import Schema

JUDGE = Schema(SCHEMA)


def fix(**container: str) -> str:
    """What to write for the only field of a container that is wrong."""
    body = jobset(rjob(pod={"containers": [{"name": "main", "image": "i", **container}]}))
    (fault,) = JUDGE.faults(body)
    return fault.fix


@pytest.mark.parametrize(
    ("line", "items"),
    [
        ("torchrun train.py", '["torchrun", "train.py"]'),
        ("sh", '["sh"]'),
        ("", '[""]'),
        ("python -c 'print(1); x = \"$A\"'", '["python", "-c", "print(1); x = \\"$A\\""]'),
        ('echo "a | b"', '["echo", "a | b"]'),
        ("torchrun --rank $(JOB_INDEX)", '["torchrun", "--rank", "$(JOB_INDEX)"]'),
        ("torchrun --rank $RANK", '["sh", "-c", "torchrun --rank $RANK"]'),
        ('echo "$RANK"', '["sh", "-c", "echo \\"$RANK\\""]'),
        ("a.sh && b.sh", '["sh", "-c", "a.sh && b.sh"]'),
        ("a.sh | tee log", '["sh", "-c", "a.sh | tee log"]'),
        ("a.sh > log", '["sh", "-c", "a.sh > log"]'),
        ("A=1 train", '["sh", "-c", "A=1 train"]'),
        ("train --lr=1", '["train", "--lr=1"]'),
        ("a.sh\nb.sh\n", '["sh", "-c", "a.sh\\nb.sh\\n"]'),
    ],
)
def test_the_words_of_a_command_line_or_a_shell(line: str, items: str):
    assert fix(command=line) == f"write it as a list: {items}"


def test_arguments_get_no_shell_of_their_own():
    assert fix(args="--lr 0.1 --epochs 3") == 'write it as a list: ["--lr", "0.1", "--epochs", "3"]'
    assert fix(args="train | tee log") == 'write it as a list: ["train | tee log"]'


@pytest.mark.parametrize("line", ["echo 'no end", "x" * (MAX_COMMAND_LENGTH + 1)])
def test_what_cannot_be_taken_apart_is_not_repeated(line: str):
    assert fix(command=line) == 'write it as a list of texts: every item starts with "- "'


def test_other_lists_of_texts_keep_the_text_whole():
    body = jobset(rjob(pod={"containers": [{"name": "main", "image": "i"}], "dnsConfig": {"searches": "a b"}}))
    (fault,) = JUDGE.faults(body)
    assert fault.fix == 'write it as a list: ["a b"]'
