// The database records every tested run by its own triggers, for every writer, independently of the engine.
import type { Stage, Subject } from "./stage.ts";

const IS_ON_TRIAL = (id: string) => `EXISTS (SELECT 1 FROM millrace_instances i WHERE i.id = ${id} AND i.subject LIKE 'proof-%')`;
const NOTE = (id: string, what: string, was: string, is: string, epoch: string) =>
  `INSERT INTO proof_journal (instance_id, what, was, is_now, epoch, at_ms) VALUES (${id}, ${what}, ${was}, ${is}, ${epoch}, CAST(unixepoch('subsec') * 1000 AS INTEGER))`;
const IN_SLOTS = `(SELECT count(*) FROM millrace_instances i WHERE i.slot = NEW.slot AND i.slot_turn IS NULL
  AND i.status IN ('accepted', 'queued', 'running', 'waiting', 'in_doubt', 'paused'))`;
const KEY = "NEW.step || '/' || NEW.item || '/' || NEW.generation";

/** Statements that start the journal. */
export const BEGIN_JOURNAL = [
  `CREATE TABLE IF NOT EXISTS proof_journal (
     at INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT NOT NULL, what TEXT NOT NULL, was TEXT, is_now TEXT, epoch INTEGER,
     at_ms INTEGER NOT NULL) STRICT`,
  "CREATE INDEX IF NOT EXISTS proof_journal_of ON proof_journal (instance_id)",
  `CREATE TRIGGER IF NOT EXISTS proof_status AFTER UPDATE OF status ON millrace_instances
   WHEN OLD.status <> NEW.status AND NEW.subject LIKE 'proof-%'
   BEGIN ${NOTE("NEW.id", "'status'", "OLD.status", "NEW.status", "NEW.run")}; END`,
  `CREATE TRIGGER IF NOT EXISTS proof_entry AFTER INSERT ON millrace_inbox WHEN ${IS_ON_TRIAL("NEW.instance_id")}
   BEGIN ${NOTE("NEW.instance_id", KEY, "NULL", "NEW.state", "NEW.epoch")}; END`,
  `CREATE TRIGGER IF NOT EXISTS proof_change AFTER UPDATE OF state, epoch ON millrace_inbox
   WHEN (OLD.state <> NEW.state OR OLD.epoch <> NEW.epoch) AND ${IS_ON_TRIAL("NEW.instance_id")}
   BEGIN ${NOTE("NEW.instance_id", KEY, "OLD.state", "NEW.state", "NEW.epoch")}; END`,
  // Each slot that an instance gets or takes: its place before, and the number of its key's instances in progress with a slot after that.
  `CREATE TRIGGER IF NOT EXISTS proof_slot AFTER UPDATE OF slot_turn ON millrace_instances
   WHEN OLD.slot_turn IS NOT NULL AND NEW.slot_turn IS NULL AND NEW.subject LIKE 'proof-%'
   BEGIN ${NOTE("NEW.id", "'slot'", "OLD.slot_turn", "NEW.status", IN_SLOTS)}; END`,
  // The undos, by the name of their run.
  `CREATE TRIGGER IF NOT EXISTS proof_back AFTER INSERT ON probe_rows WHEN NEW.kind = 'back' AND NEW.name LIKE 'proof-%'
   BEGIN ${NOTE("substr(NEW.name, 1, instr(NEW.name, '/') - 1)", "NEW.name", "NULL", "'back'", "NULL")}; END`,
];

/** Statements that end it. */
export const END_JOURNAL = ["proof_status", "proof_entry", "proof_change", "proof_slot", "proof_back"].map(
  (name) => `DROP TRIGGER IF EXISTS ${name}`,
);

/** The undos of a run, in order. */
export async function takenBack({ rows }: Stage, name: string): Promise<string[]> {
  const notes = await rows<Note>("SELECT what FROM proof_journal WHERE instance_id = ?1 ORDER BY at", name);
  return notes.map(({ what }) => what.slice(name.length + 1));
}

interface Note {
  what: string;
  was: string | null;
  is_now: string;
  epoch: number | null;
}

/**
 * Problems in the history of a run's rows: I6, an entry's epoch only grows, and the entry is done once; I13, an ended run changes on
 * request only.
 */
export async function wrongInJournal({ rows }: Stage, { id }: Subject): Promise<string[]> {
  const [notes, [asked]] = await Promise.all([
    rows<Note>("SELECT what, was, is_now, epoch FROM proof_journal WHERE instance_id = ?1 ORDER BY at", id),
    rows<{ n: number }>(
      "SELECT count(*) AS n FROM millrace_actions WHERE instance_id = ?1 AND result = 'applied' AND verb IN ('retry', 'undo', 'restart', 'close')",
      id,
    ),
  ]);
  const problems: string[] = [];
  const left = notes.filter(({ what, was }) => what === "status" && (was === "complete" || was === "terminated"));
  if (left.length > (asked?.n ?? 0))
    problems.push(
      `the instance left a final status ${left.length} times, and operators requested ${asked?.n}: ${left.map(({ was, is_now }) => `${was} to ${is_now}`)}`,
    );
  for (const [key, own] of Map.groupBy(notes, ({ what }) => what)) {
    if (key === "status" || key === "slot") continue;
    const epochs = own.map(({ epoch }) => epoch ?? 0);
    if (epochs.some((epoch, index) => epoch < (epochs[index - 1] ?? 0)))
      problems.push(`${key}: the epochs of the entry decrease: ${epochs.join(", ")}`);
    const states = own.map(({ is_now }) => is_now);
    if (states.filter((state) => state === "done").length > 1)
      problems.push(`${key}: the entry was done more than once: ${states.join(", ")}`);
    if (own.some(({ was, is_now }) => was === "done" && is_now !== "superseded"))
      problems.push(`${key}: the entry changed after it was done: ${states.join(", ")}`);
  }
  return problems;
}
