"""The rights of the page in the chart: it reads, and asks who opens it."""

from tests.support.cluster.helm import page_rules

REVIEWS = {"tokenreviews", "subjectaccessreviews"}


def test_the_page_changes_nothing():
    for rule in page_rules():
        if not REVIEWS.issuperset(rule["resources"]):
            assert set(rule["verbs"]) <= {"get", "list", "watch"}, rule


def test_the_page_reads_no_secrets_and_everything_by_name():
    resources = [name for rule in page_rules() for name in rule["resources"]]
    assert not {"secrets", "configmaps", "*"}.intersection(resources)
    assert all("*" not in (*rule["apiGroups"], *rule["verbs"]) for rule in page_rules())
