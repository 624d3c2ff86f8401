import { Refusal } from "../command.ts";
import { paint, say, seconds } from "../terminal.ts";
import { numberFrom } from "./arguments.ts";
import { type CrmApi, crmApi } from "./crm/api.ts";
import { forgets } from "./crm/forgets.ts";
import { moves } from "./crm/moves.ts";
import { heldUp, idOf, type People, peopleOf, REFUSED_COMPANY } from "./crm/people.ts";
import { until, watchAndKill } from "./crm/watch.ts";
import { chapter, type Stage, type Story } from "./story.ts";

const CONTACTS = 10_000;
const KILLS = 2;
const MOST = { contacts: 20_000, kills: 4 };
/** What the CRM allows in any ten seconds. */
const BURST = 100;
const SYNC = "spring";
/** Refusals that are shown one by one. */
const SHOWN = 3;
/** Whom a person renames in the CRM. */
const EDITED = 42;
/** Who is forgotten, and of whom it is said that they were referred by them. */
const LEAVING = 8;
const FRIEND = 9;

export const crm: Story = {
  title: "ten thousand contacts to a CRM and back, within its limit, through two kills (--contacts 1000 for fewer)",
  options: ["--contacts", "--kills"],
  vars: { KEEPER_PERIOD_MS: "1000", CRM_BURST: String(BURST) },
  tell,
};

async function tell(stage: Stage): Promise<void> {
  const count = numberFrom(stage.args, "crm", "contacts", CONTACTS, MOST.contacts);
  const kills = numberFrom(stage.args, "crm", "kills", KILLS, MOST.kills);
  if (count < 200) throw new Refusal("Fewer than 200 contacts make no story: npm run demo -- crm --contacts 200");
  const api = () => crmApi(stage.engine.url, stage.engine.token);
  const people = peopleOf(count);

  chapter(
    1,
    `${shown(count)} contacts are imported; two of them turn out to be others, ${people.doubles.length} have somebody else's address, and one works where the CRM connects nobody.`,
  );
  await bringIn(stage, api, people);

  chapter(
    2,
    `They are synced, a hundred at a time, while the whole engine is killed ${kills === 1 ? "once" : times(kills, "time")} (kill -9). The CRM puts ${people.putOff.length} off.`,
  );
  await api().setFaults([
    ...people.putOff.map((id) => ({ match: "", key: `acme/${id}`, status: 503, category: "INTERNAL_ERROR", remaining: 1 })),
    ...heldUp(count, kills).map((id) => ({ match: `acme/${id}`, status: 503, remaining: 1, retryAfter: 3 })),
    { match: "", key: REFUSED_COMPANY, status: 400, category: "VALIDATION_ERROR", remaining: null },
  ]);
  const began = Date.now();
  await api().sync(SYNC);
  const sync = await watchAndKill(stage, api, SYNC, kills, count);
  const took = Date.now() - began;
  const failures = await api().failures(SYNC);
  const { done, failed, merged } = sync.contacts;
  say(
    `  ${shown(done)} done, ${merged} merged, ${failed} refused, in ${seconds(took)} and ${sync.chunks} chunks, rounds for those put off included.`,
  );
  for (const { contact_id: contact, category, message } of failures.slice(0, SHOWN))
    say(`  ${paint("red", "refused")}  ${contact}  ${category}: ${message}`);
  if (failures.length > SHOWN) say(paint("dim", `  ${failures.length - SHOWN} more: GET /v1/crm/syncs/${SYNC}/failures`));

  chapter(3, "A person changes a contact in the CRM; the CRM says so, signed, and it is taken over.");
  const edited = await takeEdit(stage, api);
  say(`  ${idOf(EDITED)} has the job title “Captain” here too: revision ${edited.revision}, and the CRM is known to have it.`);

  chapter(4, "Nothing echoes");
  const told = await until(stage, async () => (await drained(api())) ?? undefined, "the CRM has said everything", 180_000);
  const looks = await api().looks();
  const before = (await api().calls()).total;
  await api().sync("again");
  const again = await until(stage, async () => ended(await api().syncState("again")), "the second sync ends");
  const calls = await api().calls();
  say(`  The CRM told us of ${shown(told)} changes, nearly all our own: ${looks.length} became work.`);
  say(`  A second sync: ${again.contacts.done} sent, ${again.contacts.failed} refused again, with ${calls.total - before} calls.`);

  chapter(5, "The CRM's own evidence");
  const wrong = await differences(api(), people, { done, failed, merged, looks: looks.length, again: again.contacts });
  if (wrong.length > 0) throw new Refusal(`The demo did not end as it should. ${wrong.join(" ")}`);
  const expected = count - people.merged.length - people.doubles.length;
  say(
    `  ${shown(expected)} contacts, each there once, with its name of ours; ${people.doubles.length} refused, and ${people.unconnected.length} not connected with a company, each with the CRM's reason.`,
  );
  say(
    `  ${calls.total} calls; never more than ${calls.most_in_10_seconds} in any ten seconds, of ${BURST} allowed; ${calls.refused_by_limit} answers of 429.`,
  );

  chapter(6, "A person asks to be forgotten");
  await forgets(stage, api, { person: idOf(LEAVING), address: `person${LEAVING}@example.com`, friend: idOf(FRIEND) });

  chapter(7, "The deployment is given another account of the CRM, an empty one");
  await moves(stage, api, idOf(EDITED));
  say(
    `\n${paint("green", "✓")} ${paint("bold", `Every contact is in the CRM once, through ${times(kills, "kill")}, and its limit was never passed.`)}`,
  );
}

async function bringIn(stage: Stage, api: () => CrmApi, { csv, merged, all }: People): Promise<void> {
  await api().importCsv("people", "contacts", csv);
  await until(
    stage,
    async () => ((await api().batch("people")).state === "complete" ? true : undefined),
    "the contacts are imported",
    120_000,
  );
  const facts = merged.map(([from, into]) => ({
    fact_id: `same-${from}`,
    entity: "contacts",
    type: "contact_merged",
    occurred_at: new Date().toISOString(),
    payload: { from, into },
  }));
  for (const result of await api().appendFacts(facts))
    if ("problem" in result) throw new Refusal(`A fact was refused: ${result.problem.detail}`);
  for (const [from, into] of merged)
    await until(stage, async () => ((await api().knownAs(from)) === into ? true : undefined), `${from} is known as ${into}`);
  say(`  ${shown(all.length)} rows; ${merged.map(([from, into]) => `${from} is ${into}`).join(", ")}.`);
}

async function takeEdit(stage: Stage, api: () => CrmApi): Promise<{ revision: number }> {
  const id = idOf(EDITED);
  const link = await api().link(id);
  await api().edit(link?.crm_id ?? "", { jobtitle: "Captain" });
  const { waiting } = await api().deliveries();
  if (waiting > 1)
    say(
      paint("dim", `  The CRM tells things in their order, and has ${shown(waiting - 1)} other changes to tell of, nearly all our own …`),
    );
  return until(
    stage,
    async () => {
      const contact = await api().contact(id);
      const now = await api().link(id);
      return contact?.properties.jobtitle === "Captain" && now && !now.pending ? contact : undefined;
    },
    "the change arrives",
    180_000,
  );
}

/** How much the CRM has said, once it has said everything. */
async function drained(api: CrmApi): Promise<number | undefined> {
  const { deliveries, waiting } = await api.deliveries();
  if (waiting > 0 || (await api.looks()).some(({ status }) => status !== "complete")) return undefined;
  return new Set(deliveries.flatMap(({ events }) => events)).size;
}

function ended<T extends { state: string }>(sync: T): T | undefined {
  return sync.state === "complete" ? sync : undefined;
}

interface Seen {
  done: number;
  failed: number;
  merged: number;
  looks: number;
  again: { done: number; failed: number };
}

/** Where the CRM differs from what the story says, in sentences. */
async function differences(api: CrmApi, people: People, seen: Seen): Promise<string[]> {
  const [records, calls] = [await api.records(), await api.calls()];
  const names = records.filter(({ archived }) => !archived).map(({ key }) => key);
  const away = new Set([...people.doubles, ...people.merged.map(([from]) => from)]);
  const expected = people.all.filter((id) => !away.has(id)).map((id) => `acme/${id}`);
  const there = new Set(names);
  const refused = people.doubles.length + people.unconnected.length;
  const expectations: [boolean, string][] = [
    [there.size === names.length, `${names.length - there.size} contacts are in the CRM more than once.`],
    [
      names.length === expected.length && expected.every((name) => there.has(name)),
      `The CRM has ${names.length} contacts instead of ${expected.length}.`,
    ],
    [seen.done === expected.length - people.unconnected.length, `The sync counts ${seen.done} of ${expected.length}.`],
    [seen.failed === refused, `The sync counts ${seen.failed} refused instead of ${refused}.`],
    [seen.merged === people.merged.length, `The sync counts ${seen.merged} merged instead of ${people.merged.length}.`],
    [seen.looks === 1, `${seen.looks} notices became work instead of 1.`],
    [seen.again.done === 0 && seen.again.failed === refused, "The second sync sent something back."],
    [calls.refused_by_limit === 0, `The CRM answered ${calls.refused_by_limit} times with 429.`],
    [calls.most_in_10_seconds <= BURST, `There were ${calls.most_in_10_seconds} calls in ten seconds.`],
  ];
  return expectations.filter(([holds]) => !holds).map(([, sentence]) => sentence);
}

function times(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function shown(number: number): string {
  return number.toLocaleString("en-US");
}
