import { expect, it } from "vitest";
import type { Instance } from "../../packages/millrace/cli/api-client.ts";
import { Refusal } from "../../packages/millrace/cli/command.ts";
import { notAsPromised } from "../../packages/millrace/cli/demo/observe/outage.ts";
import type { Page } from "../../packages/millrace/cli/demo/observe/outside.ts";
import { differences, traceOfJob } from "../../packages/millrace/cli/demo/observe/trace.ts";
import { barOf, type Span, treeOf } from "../../packages/millrace/cli/demo/observe/tree.ts";
import { tellDemo } from "./run-demo.ts";

it("the demo of what is seen and told shows health, an outage as three alerts, each heard once and heard to be over, a trace as one tree, and its cost", async () => {
  const out = await tellDemo(["observe"]);
  expect(out).toMatch(/gatherfeed-commands +\d+\.\d +\d+\.\d +0 % +0 +0 +\d+ ms/);
  expect(out).toContain('millrace_instances_ended_total{workflow="post-to-social",status="complete",code=""} 6');
  for (const alert of [
    /instances_errored research-keyword not_retryable/,
    /dead_letter_arrived unknown_message_type gatherfeed-commands/,
    /dead_letter_arrived invalid_payload gatherfeed-commands/,
  ]) {
    expect(out).toMatch(new RegExp(`warning +${alert.source} +503 503 204`));
    expect(out).toMatch(new RegExp(`over +${alert.source} +503 503 204`));
  }
  expect(out).toContain("✓ 30 troubles, 3 alerts.");
  expect(out).toContain("✓ All 84 instances are complete, and nothing fires any more.");
  expect(out).toMatch(/^ {2}accept gatherfeed-commands .*\n(.*\n)*? {4}research-keyword .*\n {6}decide .*\n/m);
  expect(out).toMatch(/^ +post-to-social .*\n +announce .*\n +POST /m);
  expect(out).toMatch(/✓ \d+ spans of 4 instances, one tree: accept gatherfeed-commands is where it began\./);
  expect(out).toMatch(/post-to-social +\d+ +\d+ +\d+ +0\.0000\d\d\n/);
  expect(out).toMatch(/One article: 0\.000\d+ USD; a thousand of them, and their removal one day: 0\.\d+ USD, says GET \/v1\/costs\./);
  expect(out).toContain("✓ 30 troubles were 3 alerts, each heard once and then heard to be over");
});

const ALERTS: Pick<Page["notice"], "rule" | "labels">[] = [
  { rule: "instances_errored", labels: { code: "not_retryable", workflow: "research-keyword" } },
  { rule: "dead_letter_arrived", labels: { queue: "gatherfeed-commands", reason: "unknown_message_type" } },
  { rule: "dead_letter_arrived", labels: { queue: "gatherfeed-commands", reason: "invalid_payload" } },
];

/** What the pager heard of three alerts, each request of a change as the story has it. */
const heard: Page[] = ["firing", "resolved"].flatMap((change) =>
  ALERTS.flatMap((alert, at) =>
    [503, 503, 204].map((status) => ({
      ...{ id: `${change} ${at}`, isSigned: true, status },
      notice: { ...alert, change, severity: "warning", count: null },
    })),
  ),
);

it("the demo of what is seen and told has no complaint of a pager that heard each change once, after two refusals", () => {
  expect(notAsPromised(heard, [])).toEqual([]);
});

it.each([
  ["of a notice that was taken twice", [...heard, ...heard.slice(-1)], "A notice was not taken exactly once."],
  [
    "of one that came under another id",
    [...heard.slice(0, -1), { ...heard[17], id: "another" } as Page],
    "The pager had 18 requests for 7",
  ],
  ["of one that was not signed", [{ ...heard[0], isSigned: false } as Page, ...heard.slice(1)], "A notice was not signed."],
  ["of an end that was never told", heard.slice(0, -3), "The pager heard "],
])("the demo of what is seen and told complains %s", (_, pages, complaint) => {
  expect(notAsPromised(pages, []).join(" ")).toContain(complaint);
});

it("the demo of what is seen and told complains of an alert that fires still", () => {
  expect(notAsPromised(heard, [{}])).toEqual(["1 alerts fire still."]);
});

const CHAIN = ["research-keyword", "generate-article", "publish-article", "post-to-social"];

/** Spans that began one after another, each a child of the one named before it. */
function spans(...names: [name: string, parent: string | undefined][]): Span[] {
  return names.map(([name, parentSpanId], at) => ({
    ...{ traceId: "t", spanId: name, name, attributes: [], ...(parentSpanId !== undefined && { parentSpanId }) },
    ...{ startTimeUnixNano: `${at}000000`, endTimeUnixNano: `${at + 1}000000` },
  }));
}

const whole = spans(["accept", undefined], ...CHAIN.map((name, at): [string, string] => [name, CHAIN[at - 1] ?? "accept"]));

it("a trace is shown with each span behind its parent, however the spans came in", () => {
  expect(treeOf(whole.toReversed()).map(({ span, depth }) => `${depth} ${span.name}`)).toEqual([
    "0 accept",
    "1 research-keyword",
    "2 generate-article",
    "3 publish-article",
    "4 post-to-social",
  ]);
  expect(differences(treeOf(whole))).toEqual([]);
});

it.each([
  ["of a workflow that is missing", whole.slice(0, 4), "The trace has not one span of post-to-social."],
  ["of a span whose parent was never said", whole.filter(({ name }) => name !== "accept").concat(spans(["wait", "gone"])), "2 beginnings"],
  ["of a span that was said twice", [...whole, ...whole.slice(4)], "said twice"],
])("the demo of what is seen and told complains %s", (_, of, complaint) => {
  expect(differences(treeOf(of)).join(" ")).toContain(complaint);
});

it("the demo of what is seen and told asks for another article where a slow collector has none of the first ones whole, and for no third", async () => {
  const asked: string[] = [];
  const said: Span[] = [];
  const of = (job: string) => CHAIN.map((workflow) => ({ id: `${job} ${workflow}`, workflow, status: "complete" })) as Instance[];
  const named = (job: string) => (span: Span) => ({
    ...{ ...span, traceId: job },
    attributes: [{ key: "millrace.instance_id", value: { stringValue: `${job} ${span.name}` } }],
  });
  const api = {
    instances: async (job: string) => of(job),
    askFor: async (job: string) => {
      asked.push(job);
      said.push(...whole.slice(0, asked.length === 2 ? 5 : 3).map(named(job)));
    },
  };
  const once = async (so: () => boolean | Promise<boolean>) => {
    if (!(await so())) throw new Refusal("It did not happen.");
  };
  said.push(...whole.slice(0, 4).map(named("healthy")));
  expect((await traceOfJob(api, { spans: said }, once)).map(({ id }) => id)).toEqual(CHAIN.map((name) => `traced 2 ${name}`));
  said.length = 0;
  await expect(traceOfJob(api, { spans: said }, once)).rejects.toThrow("The trace has not one span of publish-article");
  expect(asked).toEqual(["traced 1", "traced 2", "traced 1", "traced 2"]);
});

it("a bar is where its time was, and is seen however short that was", () => {
  const all = { at: 1000, ms: 100 };
  expect(barOf({ at: 1000, ms: 100 }, all, 10)).toBe("██████████");
  expect(barOf({ at: 1050, ms: 20 }, all, 10)).toBe("     ██   ");
  expect(barOf({ at: 1100, ms: 0 }, all, 10)).toBe("         ▏");
});
