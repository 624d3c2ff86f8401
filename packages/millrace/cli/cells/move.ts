import { auditDone } from "../../src/store/actions.ts";
import { beginMove, endMove, type MoveStage, selectMove, selectNumber, setStage, switchCell } from "../../src/store/cells.ts";
import { OVER } from "../../src/store/instances/status.ts";
import { endFilling, forgetMoved, isMarked, noteMoved } from "../../src/store/moved.ts";
import { Refusal } from "../command.ts";
import type { Databases, Row, Sql } from "./databases.ts";
import { copyKeys, countKeys } from "./keys.ts";
import { copyRows, deleteRows, type Guard, pagesOf, type Table, tablesIn } from "./tables.ts";

/** Longer than each isolate caches the cell of a tenant, in milliseconds. */
const FORGOTTEN_MS = 70_000;
/** The pause between two counts of a tenant's open work, in milliseconds. */
const COUNT_MS = 5000;

export interface Move {
  readonly run: Databases;
  readonly tenant: string;
  /** The number of the new cell. */
  readonly to: number;
  readonly actor: string;
  readonly reason: string;
  /** The time for which the move waits until the tenant has no open work, in milliseconds. */
  readonly patienceMs: number;
  readonly wait: (ms: number) => Promise<unknown>;
  readonly say: (sentence: string) => void;
}

interface Place {
  readonly cell: number;
  readonly stage: MoveStage | null;
  readonly other: number | null;
  readonly moved_at: number | null;
  /** How long the stage has lasted, in milliseconds. */
  readonly age: number;
}

const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/**
 * Moves a tenant to another cell, or continues a move. Each write can be repeated, so that a move which was interrupted at any point is
 * continued by the same call. Errors: a `Refusal` for a tenant with open work, after which the tenant is as before.
 */
export async function moveTenant(move: Move): Promise<void> {
  const { tenant, to, say } = move;
  for (;;) {
    const place = await placeOf(move.run, tenant);
    if (place.stage === null && place.cell === to) return say(`The tenant ${tenant} lives in the cell ${to}.`);
    const target = place.stage === "clearing" ? place.cell : (place.other ?? to);
    if (target !== to || place.stage === "cancelling") {
      const next =
        place.stage === "cancelling" ? "is being cancelled: complete the cancel" : `goes to the cell ${target}: complete or cancel it`;
      throw new Refusal(`A move of the tenant ${tenant} ${next} first.`);
    }
    const stage = place.stage ?? "none";
    await STAGES[stage](move, place);
  }
}

/** Ends a move before its last stage. The tenant stays in its cell. Errors: a `Refusal` if the tenant is not moving, or has moved. */
export async function cancelMove(run: Databases, tenant: string): Promise<number> {
  const { cell, stage, other, moved_at: filledBy } = await placeOf(run, tenant);
  if (stage === null || other === null || filledBy === null) throw new Refusal(`The tenant ${tenant} is not moving.`);
  if (stage === "ready" || stage === "clearing")
    throw new Refusal(`The move of ${tenant} is nearly complete and cannot be cancelled. Repeat the command of the move.`);
  await run(1, [setStage(tenant, stage, "cancelling")]);
  if ((await placeOf(run, tenant)).stage !== "cancelling") throw new Refusal(`The move of ${tenant} has continued. Cancel it again.`);
  await run(cell, [forgetMoved(tenant, null)]);
  // No later move may find outdated copies.
  await removeCopies(run, other, { tenant, filledBy });
  await run(other, [endFilling(tenant, filledBy)]);
  await run(1, [endMove(tenant, "cancelling")]);
  return cell;
}

/** The number of rows that a move copies, and the tenant's open work. */
export async function planOf(run: Databases, tenant: string): Promise<{ cell: number; open: Open; rows: number; keys: number }> {
  const { cell } = await placeOf(run, tenant);
  const { ofTenants } = await tablesIn(run, cell);
  const counts = ofTenants.map(({ name }): Sql => ({ text: `SELECT count(*) AS n FROM "${name}" WHERE tenant_id = ?1`, params: [tenant] }));
  let rows = 0;
  for (const count of counts) rows += Number((await run(cell, [count]))[0]?.[0]?.n);
  return { cell, open: await openWork(run, cell, tenant), rows, keys: await countKeys(run, cell) };
}

async function placeOf(run: Databases, tenant: string): Promise<Place> {
  const [[row] = []] = await run(1, [selectMove(tenant)]);
  if (row === undefined) throw new Refusal(`The tenant ${tenant} has no cell: it has not been used yet.`);
  return row as unknown as Place;
}

async function refuseOpen({ run, tenant }: Move, open: Open): Promise<never> {
  await cancelMove(run, tenant);
  throw new Refusal(`The tenant ${tenant} has open work: ${wordsOf(open)}. The move is cancelled.`);
}

type Stage = (move: Move, place: Place) => Promise<unknown>;

const STAGES: Readonly<Record<Exclude<Place["stage"], "cancelling" | null> | "none", Stage>> = {
  async none({ run, tenant, to }, { cell }) {
    for (const one of [cell, to]) {
      const [[row] = []] = await run(one, [selectNumber]);
      if (row?.cell === one) continue;
      const whose = row?.cell ? `is the database of the cell ${row.cell}: correct "d1_databases"` : "is not in use yet: deploy, and repeat";
      throw new Refusal(`The database of the cell ${one} ${whose}.`);
    }
    const [from, target] = [await tablesIn(run, cell), await tablesIn(run, to)];
    for (const { name, columns } of [...from.ofTenants, ...from.ofInstances]) {
      const same = [...target.ofTenants, ...target.ofInstances].find((one) => one.name === name);
      const lacking = same ? columns.find((column) => !same.columns.includes(column)) : "";
      if (lacking !== undefined)
        throw new Refusal(`The cell ${to} lacks the table ${name}${lacking && ` with the column ${lacking}`}. Apply the migrations.`);
    }
    await run(1, [beginMove(tenant, to)]);
  },

  async copying({ run, tenant, to, say }, { cell }) {
    say(`Copies the keys of the cell ${cell}. The tenant is not affected.`);
    await copyKeys(run, cell, to, 0);
    await run(1, [setStage(tenant, "copying", "closing")]);
  },

  async closing(move, { cell, age }) {
    const { run, tenant, say, wait, patienceMs } = move;
    say(`The tenant ${tenant} gets no new commands (503). Waits until its open work has ended.`);
    await wait(Math.max(0, FORGOTTEN_MS - age));
    for (let waited = 0; ; waited += COUNT_MS) {
      const open = await openWork(run, cell, tenant);
      if (open.total === 0) break;
      if (waited >= patienceMs) await refuseOpen(move, open);
      await wait(COUNT_MS);
    }
    await run(1, [setStage(tenant, "closing", "frozen")]);
  },

  async frozen(move, { cell, age, moved_at }) {
    const { run, tenant, to, say, wait } = move;
    say(`The tenant ${tenant} is unavailable (503), and its messages are delayed.`);
    const filledBy = Number(moved_at);
    await run(cell, [noteMoved(tenant, to, null)]);
    await wait(Math.max(0, FORGOTTEN_MS - age));
    // Queues have delivered messages until the stage began.
    const open = await openWork(run, cell, tenant);
    if (open.total > 0) await refuseOpen(move, open);
    await run(to, [noteMoved(tenant, cell, filledBy)]);
    await transfer(move, { from: cell, to, filledBy });
    // An instance that was removed before its row was copied has a key.
    await copyKeys(run, cell, to, filledBy - FORGOTTEN_MS);
    await run(to, [audited(move, cell, filledBy)]);
    await run(1, [setStage(tenant, "frozen", "ready")]);
  },

  async ready({ run, tenant, to, say }, { cell, moved_at }) {
    // A token must not be valid in both cells, because a revocation removes it from one.
    for (const table of ["millrace_tokens", "millrace_sign_in_codes"]) {
      const text = `DELETE FROM ${table} WHERE tenant_id = ?1 AND ${isMarked("?1", null)}`;
      await run(cell, [{ text, params: [tenant] }]);
    }
    await run(to, [forgetMoved(tenant, Number(moved_at))]);
    await run(1, [switchCell(tenant, to)]);
    say(`The tenant ${tenant} lives in the cell ${to} now. Removes its rows from the cell ${cell}.`);
  },

  async clearing(move, { cell, other }) {
    await transfer(move, { from: Number(other), to: cell, filledBy: null });
    await move.run(1, [endMove(move.tenant, "clearing")]);
  },
};

interface Transfer {
  readonly from: number;
  readonly to: number;
  /** The move that fills the new cell. Null: the tenant lives in the new cell, so that rows are deleted after they were copied. */
  readonly filledBy: number | null;
}

/** Copies the rows of a tenant, or moves the rows that remain in a cell after the tenant has left. */
async function transfer({ run, tenant }: Pick<Move, "run" | "tenant">, { from, to, filledBy }: Transfer): Promise<void> {
  const guard = { tenant, filledBy };
  await eachPage(run, from, tenant, async (table, rows) => {
    await copyRows(run, to, table, rows, filledBy === null ? undefined : guard);
    if (filledBy === null) await deleteRows(run, from, table, rows, guard);
  });
}

/** Removes the copies that a move has written. */
async function removeCopies(run: Databases, cell: number, guard: Guard): Promise<void> {
  await eachPage(run, cell, guard.tenant, (table, rows) => deleteRows(run, cell, table, rows, guard));
}

/** Reads the rows of a tenant, page by page. The rows of an instance come before the instance. */
async function eachPage(
  run: Databases,
  cell: number,
  tenant: string,
  take: (table: Table, rows: readonly Row[]) => Promise<void>,
): Promise<void> {
  const { ofTenants, ofInstances } = await tablesIn(run, cell);
  for (const table of ofTenants) {
    for await (const rows of pagesOf(run, cell, table, "tenant_id = ?1", [tenant])) {
      const ids = JSON.stringify(rows.map(({ id }) => id));
      for (const part of table.name === "millrace_instances" ? ofInstances : []) {
        for await (const parts of pagesOf(run, cell, part, "instance_id IN (SELECT value FROM json_each(?1))", [ids]))
          await take(part, parts);
      }
      await take(table, rows);
    }
  }
}

interface Open {
  readonly total: number;
  readonly instances: number;
  readonly callbacks: number;
  readonly messages: number;
  readonly actions: number;
  readonly archiving: number;
}

/** The work of a tenant that a move would interrupt. */
async function openWork(run: Databases, cell: number, tenant: string): Promise<Open> {
  const over = `status IN ${OVER.fragment}`;
  const of = (table: string, where: string) => `(SELECT count(*) FROM ${table} WHERE ${where})`;
  const text = `SELECT ${of("millrace_instances", `tenant_id = ?1 AND NOT ${over}`)} AS instances,
    ${of("millrace_instances", `tenant_id = ?1 AND ${over} AND callback <> run || ':' || status`)} AS callbacks,
    ${of("millrace_outbox", "body->>'tenant_id' = ?1")} AS messages,
    ${of("millrace_actions", "tenant_id = ?1 AND applied_at IS NULL AND result = 'applied'")} AS actions,
    ${of("millrace_tenant_objects", `tenant_id = ?1 AND binding = 'ARCHIVE' AND CAST(name AS INTEGER) > ${NOW} - 3600000`)} AS archiving`;
  const [[row = {}] = []] = await run(cell, [{ text, params: [tenant] }]);
  const counts = Object.entries(row).map(([name, count]) => [name, Number(count)] as const);
  return { ...Object.fromEntries(counts), total: counts.reduce((sum, [, count]) => sum + count, 0) } as unknown as Open;
}

export function wordsOf({ total: _, ...counts }: Open): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  return some.map(([name, count]) => `${count} ${name}`).join(", ") || "none";
}

/** The audit row of a move. Its id is the same at each repeat, so that a second row is ignored. */
function audited({ tenant, actor, reason, to }: Move, from: number, at: number): Sql {
  const id = `move/${tenant}/${at}`;
  const action = { id, verb: "move_tenant", target: tenant, instanceId: null, reason, before: { cell: from }, after: { cell: to } };
  return auditDone({ tenantId: tenant, actor }, action, "applied");
}
