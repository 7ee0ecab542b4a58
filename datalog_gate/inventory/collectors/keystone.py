"""The tables of Keystone: projects, users, roles and who has which."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

KEYSTONE = ApiService("Keystone", "identity", "3")


def _list(name: str) -> ApiList:
    return ApiList(KEYSTONE, f"/{name}", name, "links")


PROJECTS, USERS, ROLES, GROUPS = _list("projects"), _list("users"), _list("roles"), _list("groups")
MEMBERS = ApiList(KEYSTONE, "/groups/{id}/users", "users", "links", GROUPS)
ASSIGNMENTS = _list("role_assignments")


class Keystone(Collector):
    """The tables of Keystone. Those of `keystone:`, of Congress's older driver, hold the same of version 3."""

    tables = (
        table("keystonev3:projects", PROJECTS, "id name? description? enabled domain_id"),
        table("keystonev3:domains", _list('domains'), "id name description? enabled"),
        table("keystonev3:users", USERS, "id name enabled default_project_id? domain_id"),
        table("keystonev3:roles", ROLES, "id name"),
        table("keystonev3:groups", GROUPS, "id name domain_id"),
        table("keystonev3:group_users", MEMBERS, "group_id=$id user_id=id"),
        table("keystonev3:role_assignments", ASSIGNMENTS, "role_id=role/id user_id=user/id? group_id=group/id? "
              "project_id=scope/project/id? domain_id=scope/domain/id? system=scope/system/all? "
              "inherited_to=scope/OS-INHERIT:inherited_to?"),
        table("keystone:tenants", PROJECTS, "id name description? enabled"),
        table("keystone:users", USERS, "id username=name name enabled tenantId=default_project_id? email?"),
        table("keystone:roles", ROLES, "id name"),
    )  # fmt: skip
