import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { durationMs } from "../../../packages/millrace/src/contract/duration.ts";
import { DEFAULT_RETRIES } from "../../../packages/millrace/src/guard/step.ts";
import { RECORDED_CLASSES } from "../../../packages/millrace/src/store/inbox/classes.ts";
import { INSTANCE_STATUSES } from "../../../packages/millrace/src/store/instances/status.ts";
import { REMEMBERED_DAYS, resultsKeptMs } from "../../../packages/millrace/src/store/kept-days.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const PAGES = globSync(
  ["README.md", "ARCHITECTURE.md", "docs/*.md", "examples/*/README.md", "test/README.md", "packages/millrace/README.md"],
  {
    cwd: ROOT,
  },
).toSorted();

interface Line {
  readonly page: string;
  readonly place: string;
  readonly text: string;
  /** The first header cell of the line's table. */
  readonly header: string;
}

/** The lines of prose, tables and diagrams. Examples are code, and other tests run them. */
function linesOf(page: string, markdown = read(page)): Line[] {
  let fence: string | undefined;
  let header = "";
  return markdown.split("\n").flatMap((text, at) => {
    const [, language] = /^```(\w*)$/.exec(text) ?? [];
    if (language !== undefined) {
      fence = fence === undefined ? language : undefined;
      return [];
    }
    if (fence !== undefined && fence !== "mermaid") return [];
    if (!text.startsWith("|")) header = "";
    else if (header === "") header = text.split("|")[1]?.trim() ?? "";
    return [{ page, place: `${page}:${at + 1}`, text, header }];
  });
}

/** A fact: the page that states it, and the pattern that recognises a statement of it. */
interface Fact {
  readonly fact: string;
  readonly home: string;
  readonly states: (line: Line) => boolean;
  /** Other facts in the same words, by page. */
  readonly others?: Readonly<Record<string, RegExp>>;
}

const CLASS = "`(?:step\\.)?(?:commit|keyed|lookup|natural|once|read)`";
const has = (...patterns: readonly RegExp[]) => {
  return ({ text }: Line) => patterns.some((pattern) => pattern.test(text));
};

/** The days of all rules of retention. */
const DAYS = [...new Set(rowsOf(read("docs/retention.md"), "rule").map(([, days]) => Number(days)))];

/** Headers of tables whose words are not statuses: a batch has a `state`, an undo a `verdict`, a stream events, a log its lines. */
const NO_STATUS = ["state", "verdict", "field", "event", "log"];

/** One row of a table for one status. */
const STATUS_ROW = new RegExp(`^\\| \`(?:${INSTANCE_STATUSES.join("|")})\` *\\| *\\S`);
const OUTCOMES = /`(?:started|duplicate|routed|kept|put off|retried|settled|captured)`/g;

const FACTS: readonly Fact[] = [
  {
    fact: "the promise of an effect class",
    home: "README.md",
    states: has(
      new RegExp(`^\\| (?:an? |of an? )?${CLASS}.*(?:(?:exactly|at least|at most) once|\\| once[ ,]|may repeat|needs? an operator)`),
      new RegExp(`${CLASS}[^|.;]*\\b(?:exactly|at least|at most) once\\b`),
      new RegExp(`${CLASS}[^|.;]*\\b(?:is|are) (?:never|not) (?:sent|done|repeated)`),
      /`keyed`.*\b(?:same|derived)\b[^|.]*\bkey\b/,
      /\b(?:keyed|lookup|natural|commit)\b means\b|\b(?:at most|exactly|at least) once\b[^|.]*\(`(?:once|keyed|lookup|natural|commit)`\)/,
      /\bhonours an idempotency key\b/,
    ),
  },
  {
    fact: "the D1 round trips of an effect class",
    home: "README.md",
    states: has(/^\| class .*\bD1 round trips\b/, new RegExp(`${CLASS}[^|]* [012][,;] .*round trip`), /`read` 0; `commit`/),
  },
  {
    fact: "the meaning of a status of an instance",
    home: "docs/operating.md",
    states: (line) => STATUS_ROW.test(line.text) && !NO_STATUS.includes(line.header.replaceAll("`", "")),
  },
  {
    fact: "the outcomes of a delivered message",
    home: "docs/logs.md",
    states: ({ text, header }) => header.startsWith("result of a delivery") || (text.match(OUTCOMES) ?? []).length >= 4,
  },
  {
    fact: "an age of retention, in days",
    home: "docs/retention.md",
    states: has(new RegExp(`\\b(?:${DAYS.join("|")}) days\\b`)),
    others: {
      "docs/alerts.md": /a time in the next 30 days/,
      "docs/brand.md": /\| ended cycles, audits, requests and articles, verdicts \| 90 days/,
      "docs/derived.md": /`expires_in_seconds` \(1 s to 30 days\)|an ended hold .*remembered for 30 days/,
      "docs/operating.md": /A token lasts 90 days by default/,
      "docs/platform-limits.md": /^\| (?:retention .*14 days, default 4|backlog .*2 days old|point-in-time recovery .*30 days)/,
      // These cells are compared with the rules below.
      "docs/privacy.md": /^\| (?:`|engine lanes)|Time Travel\) hold 30 days/,
      "docs/text.md": /checks daily, and fails after 30 days/,
    },
  },
  {
    fact: "a price",
    home: "docs/cost.md",
    states: has(/(?:^|[^\w"'{`])\$ ?\d/, /\b\d[\d.]* dollars\b/),
    others: {
      // The costs of a part, each on the page of that part.
      "docs/lanes.md": /^\| (?:one by one|many at once to one key|by `sendBatch`)/,
      "docs/pull.md": /202 rows and three requests, about \$0\.0002/,
      "docs/reconciliation.md": /^\| (?:1,000,000 instances|100,000 sleeping|a possibly referenced|the scan's position)/,
    },
  },
  {
    fact: "the rows, requests and lines of a run",
    home: "docs/cost.md",
    states: has(
      /_per_million_runs|rows_written_per_run|cost_shown/,
      /\b(?:rows?|requests?|log lines?|lines)(?: written)? (?:per|a|for each|of a) run\b/,
      /\brun of three steps (?:writes|costs|needs|has) /,
    ),
  },
  {
    fact: "the default retries of a step",
    home: "docs/authoring.md",
    states: has(/^\| `retries` +\| \d+, from/, /\b5 (?:retries|times|attempts)\b.*\b10 s/, /\bfive (?:retries|times)\b.*\bten seconds/i),
  },
  {
    fact: "the default retries of a queue and of a lane queue",
    home: "docs/queues.md",
    states: has(/^\| `retries` +\| \d+, \d+ s …/, /\b3 (?:retries|times|attempts)\b.*\b30 s/, /\b3, 30 s … 10 m/),
  },
  {
    fact: "the default retries of a lane",
    home: "docs/lanes.md",
    states: has(/^\| `retries` +\| \d+, \d+ seconds?, /, /\b3 (?:retries|times)\b.*\b1 s\b/),
  },
];

/** Statements of a fact on another page than the fact's own. */
function repeated({ fact, home, states, others }: Fact, lines: readonly Line[]): string[] {
  return lines
    .filter((line) => line.page !== home && states(line) && !others?.[line.page]?.test(line.text))
    .map(({ place, text }) => `${place} states ${fact}: link to ${home} instead. ${text.trim().slice(0, 120)}`);
}

const lines = PAGES.flatMap((page) => linesOf(page));

describe("Each fact of the documentation is stated once", () => {
  it.each(FACTS)("$home alone states $fact", (fact) => {
    expect(
      lines.some((line) => line.page === fact.home && fact.states(line)),
      "This fact's own page states it.",
    ).toBe(true);
    expect(repeated(fact, lines)).toEqual([]);
    for (const [page, text] of Object.entries(fact.others ?? {}))
      expect(
        lines.some((line) => line.page === page && fact.states(line) && text.test(line.text)),
        `${page}: ${text}`,
      ).toBe(true);
  });

  it.each([
    "| `keyed` | the upstream honours a key | once, as long as it remembers |",
    "A `once` effect happens at most once.",
    "A mail is sent at most once (`once`).",
    "| `errored` | a step failed permanently |",
    "Outcomes: `started`, `duplicate`, `routed`, `captured`.",
    "Failed instances are kept for 90 days.",
    "  errored --> [*]: pruned after 90 days",
    "A million runs cost $36.80.",
    "It writes 10 rows per run.",
    "| `retries` | 5, from 10 seconds, exponential |",
    "A message is retried: 3, 30 s … 10 m.",
  ])("a second statement of a documented fact is found: %s", (text) => {
    const planted = linesOf("docs/limits.md", `# A page\n\n| status | meaning |\n| --- | --- |\n${text}\n`);
    const found = FACTS.flatMap((fact) => repeated(fact, planted));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^docs\/limits\.md:5 states /);
  });

  it("a code example, and a table of states of another resource, do not count as a second statement of a fact", () => {
    const planted = linesOf(
      "docs/limits.md",
      "```ts\nstep.sleep('90 days');\n```\n\n| state | meaning |\n| --- | --- |\n| `errored` | a batch |\n",
    );
    expect(FACTS.flatMap((fact) => repeated(fact, planted))).toEqual([]);
  });
});

describe("The values on the pages equal the values in the code", () => {
  it("README.md has each effect class, and docs/operating.md each status, in one row", () => {
    const cells = (page: string, header: string) => rowsOf(read(page), header).map(([cell = ""]) => cell.replaceAll("`", ""));
    expect(cells("README.md", "class").toSorted()).toEqual([...RECORDED_CLASSES, "read"].toSorted());
    expect(cells("docs/operating.md", "status")).toEqual(INSTANCE_STATUSES);
  });

  it("the default retries on the pages equal those in the code", () => {
    const option = (page: string) => rowsOf(read(page), "option").find(([name]) => name === "`retries`")?.[1];
    const { limit, delay, backoff } = DEFAULT_RETRIES;
    expect(option("docs/authoring.md")).toBe(`${limit}, from ${delay}, ${backoff}`);
    const constant = (file: string, name: string) => {
      const values = new RegExp(`const ${name} = \\{ limit: (\\d+), initial: "([^"]+)", max: "([^"]+)" \\}`).exec(read(file));
      return values?.slice(1) ?? [];
    };
    const short = (time = "") => time.replace(/ (s|m)\w+$/, " $1");
    const [queueLimit, initial, max] = constant("packages/millrace/src/topology/consumer.ts", "RETRIES");
    expect(option("docs/queues.md")).toBe(`${queueLimit}, ${short(initial)} … ${short(max)}`);
    expect(option("docs/lanes.md")).toBe(constant("packages/millrace/src/lanes/definition.ts", "DEFAULT_LANE_RETRIES").join(", "));
  });

  it("the retention of the platform on the pages equals that in the code", () => {
    const rows = rowsOf(read("docs/retention.md"), "run");
    const kept = (run: string) => rows.find(([name]) => name === run)?.[1] ?? "";
    const [days = ""] = /\d+ days/.exec(kept("complete")) ?? [];
    expect(durationMs(days as "2 days")).toBe(resultsKeptMs("a workflow without its own retention"));
    expect(kept("errored")).toContain(`${REMEMBERED_DAYS} days`);
  });

  /** The rules that remove the rows of a table, or of an object or a folder of files. */
  const RULES: Record<string, string[]> = {
    "`millrace_actions`": ["actions"],
    "`millrace_alerts`": ["alerts resolved"],
    "`batches`": ["batches"],
    "`millrace_bulk_actions`": ["bulk actions ended"],
    "`millrace_counts`": ["counts of minutes", "counts of hours"],
    "`crm_syncs`": ["crm syncs"],
    "`millrace_dead_letters`": ["dead letters open", "dead letters settled"],
    "`facts`": ["facts"],
    "`millrace_divergences`": ["divergences ended"],
    "`millrace_failed_deliveries`": ["failed deliveries"],
    "`millrace_fences`": ["fences of locks"],
    "`millrace_instances`": ["instances ended", "instances failed"],
    "`millrace_outbox`": ["outbox"],
    "`millrace_schedule_runs`": ["schedule runs"],
    "`millrace_signals`": ["signals", "actions"],
    "`millrace_sequences`": ["streams"],
    "`millrace_stated_events`": ["stated events"],
    "`text_calls`": ["text calls"],
    "`millrace_tokens`": ["tokens expired"],
    "`millrace_tombstones`": ["tombstones"],
    "`webhook_deliveries`": ["webhook deliveries"],
    "`webhook_secrets`": ["webhook secrets"],
    "`webhook_versions`": ["webhook versions"],
    "`Ledger`": ["facts"],
    "`payloads/{tenant}/`": ["payloads and outputs"],
    "`runs/{tenant}/`": ["archived instances"],
  };

  it("docs/privacy.md repeats the retention periods of docs/retention.md", () => {
    const ages = new Map(rowsOf(read("docs/retention.md"), "rule").map(([name = "", days]) => [name.replaceAll("`", ""), Number(days)]));
    const page = read("docs/privacy.md");
    const cells = ["table", "object", "files"].flatMap((header) =>
      rowsOf(page, header).map((row) => [row[0] ?? "", row.at(-1) ?? ""] as const),
    );
    const told = new Map(
      cells.map(([name, kept]) => [name, [...kept.matchAll(/(?<![\d.])(\d+)(?! minutes)/g)].map(([, days]) => Number(days))]),
    );
    for (const [name, rules] of Object.entries(RULES)) expect(told.get(name), name).toEqual(rules.map((rule) => ages.get(rule)));
    const other = [...told].filter(([name, days]) => !(name in RULES) && days.some((one) => ages.values().some((age) => age === one)));
    // Excluded: a budget's own storage, and messages of pull queues and lanes.
    expect(other.map(([name]) => name).filter((name) => /^`/.test(name))).toEqual(["`Budget`"]);
  });
});
