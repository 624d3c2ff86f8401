import type { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { Account } from "./account/account.ts";
import { configuration, deploy, millrace, shop } from "./account/shop.ts";

const two = () => ({
  ...configuration(),
  vars: { CELLS: 2 },
  d1_databases: ["", "_2"].map((cell) => ({ binding: `DB${cell}`, database_name: `shop${cell}` })),
});

/** The ids of a tenant's rows in the tables of the test. */
const idsIn = (database: DatabaseSync) =>
  ["millrace_instances", "millrace_actions", "millrace_tokens"].map((table) =>
    database
      .prepare(`SELECT id FROM ${table} WHERE tenant_id = 'acme' AND id NOT LIKE 'move/%'`)
      .all()
      .map(({ id }) => id),
  );

const NOW = "unixepoch() * 1000";

it("cells move copies the rows between deployed databases, continues a move, and cancels it", async () => {
  const account = await new Account().start();
  const folder = shop(two());
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
  const [first, second] = ["shop", "shop_2"].map((name) => account.databases.get(name)?.sqlite);
  if (!first || !second) throw new Error("The account has both databases.");
  const id = "a".repeat(32);
  first.exec(`
    INSERT INTO millrace_cells (tenant_id, cell) VALUES ('acme', 1), ('busy', 1);
    INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
      fingerprint, envelope, status, accepted_at, updated_at) VALUES
      ('${id}', 'acme', 'w', 'w', 'k', 'c', 'c', 's', 'f', '{}', 'complete', 1, 1),
      ('${"b".repeat(32)}', 'busy', 'w', 'w', 'k', 'c', 'c', 's', 'f', '{}', 'running', 1, 1);
    INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at, applied_at)
      VALUES ('act', 'acme', 'ada', 'mint', 'it''s', 'why', 'applied', 1, 1);
    INSERT INTO millrace_tombstones (id, fingerprint, place) VALUES (x'00112233445566778899aabbccddeeff', x'0011', ${NOW});`);
  const before = idsIn(first);

  const planned = await millrace(folder, account, ["cells", "move", "busy", "2", "--remote", "--dry-run"]);
  expect(planned).toMatchObject({ code: 0, said: expect.stringContaining("Open work: 1 instances") });
  expect(await millrace(folder, account, ["cells", "move", "acme", "3", "--remote"])).toMatchObject({ code: 2 });
  expect(await millrace(folder, account, ["cells", "cancel", "acme", "--remote"])).toMatchObject({ code: 1 });

  // The stage has lasted for a longer time than isolates cache a cell.
  const freeze = () =>
    first.exec(`UPDATE millrace_cells SET stage = 'frozen', other = 2, moved_at = ${NOW} - 200000, staged_at = ${NOW} - 100000
      WHERE tenant_id = 'acme'`);
  freeze();
  expect(await millrace(folder, account, ["cells", "cancel", "acme", "--remote"])).toMatchObject({ code: 0 });
  freeze();
  expect(await millrace(folder, account, ["cells", "move", "acme", "2", "--remote", "--reason", "it's large"])).toMatchObject({
    code: 0,
    said: expect.stringContaining("The tenant acme lives in the cell 2."),
  });
  expect(idsIn(first)).toEqual([[], [], []]);
  expect(idsIn(second)).toEqual(before);
  expect(first.prepare("SELECT cell, stage FROM millrace_cells WHERE tenant_id = 'acme'").all()).toEqual([{ cell: 2, stage: null }]);
  expect(second.prepare("SELECT hex(id) AS id FROM millrace_tombstones").all()).toEqual([{ id: "00112233445566778899AABBCCDDEEFF" }]);
  expect(second.prepare("SELECT verb, reason FROM millrace_actions WHERE id LIKE 'move/%'").all()).toEqual([
    { verb: "move_tenant", reason: "it's large" },
  ]);
}, 180_000);
