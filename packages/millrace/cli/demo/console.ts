import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { apiOf } from "../api-client.ts";
import { stopped } from "../command.ts";
import { signInLink } from "../local/sign-in-link.ts";
import { paint, say } from "../terminal.ts";
import { NOWHERE, startDepot } from "./console/depot.ts";
import { type OperateApi, operateApi } from "./operate/api.ts";
import { FAILED, LARGE, LOST, SHORT } from "./operate/orders.ts";
import { type Outside, startOutside } from "./operate/outside.ts";
import type { Stage, Story } from "./story.ts";
import { untilWith } from "./until.ts";

/** Each look asks the engine. */
const LOOK_MS = 250;
/** While somebody looks, an order comes in so often. */
const ORDER_EVERY_MS = 4000;
/** Orders that go well before anybody looks. */
const WELL = 12;

const orderNamed = (number: number) => ({ order: `order-${number}`, to: "3 Weir Street", pieces: 1 + (number % 7) });

export const console: Story = {
  title: "a populated console, until Ctrl-C: healthy work, retries, waits, a doubt, failures, dead letters, a lane that stands",
  config: join(import.meta.dirname, "console/wrangler.jsonc"),
  async open() {
    const [outside, depot] = await Promise.all([startOutside(), startDepot()]);
    return {
      vars: { ...outside.vars, DEPOT_URL: depot.url },
      tell: (stage) => tell(stage, outside),
      stop() {
        outside.stop();
        depot.stop();
      },
    };
  },
};

async function tell(stage: Stage, outside: Outside): Promise<void> {
  const { engine, stop, args } = stage;
  const api = operateApi(engine);
  say(paint("dim", "  A shop's day is being made: orders, parcels, changes of addresses …"));
  await goWrong(stage, api);
  outside.letBook(true);
  outside.loseAnswer(LOST.order);
  await api.ship([LOST, ...Array.from({ length: WELL }, (_, at) => orderNamed(101 + at))]);
  await untilWith(stop, LOOK_MS)(async () => {
    const shipped = (await api.all()).filter(({ status }) => status === "complete").length;
    return shipped === WELL && (await api.doubts()).length === 1;
  }, `${WELL} orders are shipped, and one is in doubt`);

  say();
  for (const line of told()) say(`  ${line}`);
  say(`\n${paint("bold", "Open the console")}`);
  await showLink(engine);
  if (args.includes("--exit")) return;
  say(`\nCtrl-C ends it${process.stdin.isTTY ? "; Enter prints another link" : ""}.`);
  if (process.stdin.isTTY) process.stdin.on("data", () => void showLink(engine).catch(() => undefined));
  await Promise.race([keepComing(api, stop), engine.ended, stopped(stop)]).catch((error: unknown) => {
    if (!stop.aborted) throw error;
  });
}

/** What there is to be seen. */
function told(): string[] {
  return [
    `${WELL} orders are shipped, and one more comes in every ${ORDER_EVERY_MS / 1000} s.`,
    `${FAILED.length} failed, of one cause: the courier's key had expired. It is renewed by now: retry one, then the rest.`,
    `${LARGE.order} waits for a yes. Of the mail for ${LOST.order} nobody knows whether it went out.`,
    `One parcel is weighed again and again, one waits for a signature, one sleeps.`,
    "Six messages of an old shop are dead letters, of three causes.",
    `The lane of ${NOWHERE} stands, behind an address that the depot will not have.`,
  ];
}

async function showLink({ url, token }: Stage["engine"]): Promise<void> {
  say(`  ${await signInLink(url, token)}`);
  say(paint("dim", "  The link signs in one browser, within 10 minutes. Another, after a reload: npm run token -- link"));
}

/** Everything that does not go well, and waits until all of it stands where a person finds it. */
async function goWrong({ engine, stop }: Stage, api: OperateApi): Promise<void> {
  const { enqueue } = apiOf(engine.url, engine.token);
  const { pieces: _, ...short } = SHORT;
  const address = (customer: string, change: number) => ({
    type: "address.change",
    payload: { customer, change, address: `${change} Mill Lane` },
  });
  await Promise.all([
    api.ship([...FAILED, LARGE]),
    enqueue([
      ...[1, 2, 3].map((number) => ({ type: "parcel.follow", payload: { parcel: `parcel-${number}`, signed: number === 3 } })),
      ...[1, 2, 3].map((change) => address(NOWHERE, change)),
      address("ada", 1),
    ]),
    ...[1, 2, 3].map((number) => api.outsider(`old-${number}`, { ...short, order: `old-${number}` })),
    ...[4, 5].map((number) => api.outsider(`old-${number}`, { ...SHORT, order: `old-${number}` }, "order.shp")),
  ]);
  const until = untilWith(stop, LOOK_MS);
  await until(async () => {
    const count = Map.groupBy(await api.all(), ({ status }) => status);
    return count.get("errored")?.length === FAILED.length && count.get("waiting")?.length === 1;
  }, `${FAILED.length} orders fail, and one waits`);
  // A key that is known, with something else under it.
  await api.outsider(FAILED[0]?.order ?? "", { ...FAILED[0], pieces: 7 });
  await until(async () => {
    const [letters, lanes, parcels] = await Promise.all([api.letterCauses(), api.lanes(), api.all("follow-parcel")]);
    const standing = parcels.filter(({ waiting_for: waits, retrying }) => waits.length > 0 || retrying);
    return letters.length === 3 && lanes.length === 1 && standing.length === 2;
  }, "dead letters have three causes, a lane stands, and parcels wait and are retried");
}

/** Orders that go well, one after another, for as long as somebody looks. */
async function keepComing(api: OperateApi, stop: AbortSignal): Promise<void> {
  for (let number = 201; ; number++) {
    await sleep(ORDER_EVERY_MS, undefined, { signal: stop });
    await api.ship([orderNamed(number)]);
  }
}
