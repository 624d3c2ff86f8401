import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { LanesApi } from "./api.ts";
import { type Outside, TILL_CENTS } from "./outside.ts";

const SHOP = "berlin";

/** Takes a lock from a holder that hangs, lets the next one write, and shows that the old one, when it wakes up, cannot. */
export async function lateHolder(api: LanesApi, outside: Outside, until: Until): Promise<void> {
  const wakes = Promise.withResolvers<void>();
  outside.stall("ann", wakes.promise);
  const said = (holder: string) =>
    api.closeBooks(SHOP, holder).then(
      () => undefined,
      (error: Error) => error.message,
    );
  const ann = said("ann");
  try {
    await until(() => outside.asked.length === 1, "ann has the lock, and asks the till");
    const bob = said("bob");
    await until(async () => (await api.lock(SHOP)).waiting === 1, "bob waits for the lock");
    say(`  ${paint("cyan", column("ann", 4))} has the lock under token ${tokenOf(outside, "ann")}, and hangs. bob waits behind her.`);
    const { broken } = await api.breakLock(SHOP);
    if (!broken) throw new Refusal("Nobody held the lock that was to be broken.");
    const refused = await bob;
    if (refused !== undefined) throw new Refusal(`bob could not write: ${refused}`);
    say("  An operator breaks the lock.");
    say(`  ${paint("cyan", column("bob", 4))} has it under token ${tokenOf(outside, "bob")}, and writes the books of the day.`);
  } finally {
    wakes.resolve();
  }
  const late = await ann;
  if (late === undefined) throw new Refusal("ann wrote, long after she had lost the lock.");
  if (!late.includes("409")) throw new Refusal(`ann was refused, but not because of the lock: ${late}`);
  say(
    `  ${paint("cyan", column("ann", 4))} wakes up, believes that she holds the lock, and writes: ${paint("red", "refused")} by the database.`,
  );
  const [first, second] = outside.asked;
  const rows = await api.books(SHOP);
  const [row] = rows;
  if (!first || !second || outside.asked.length !== 2 || second.token <= first.token) {
    throw new Refusal(`The till was asked under the tokens ${outside.asked.map(({ token }) => token).join(", ")}, which must grow.`);
  }
  if (rows.length !== 1 || row?.holder !== "bob" || row.cents !== TILL_CENTS) {
    throw new Refusal(`The books are ${JSON.stringify(rows)} instead of one row of bob's.`);
  }
  say(`  ${paint("green", "✓")} The books have one row, by ${row.holder}: a token that is lower than one that has written writes nothing.`);
}

function tokenOf({ asked }: Outside, of: string): number {
  return asked.find(({ holder }) => holder === of)?.token ?? 0;
}
