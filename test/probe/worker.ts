import { call, defineConsumer, on, project, sendEach, signal, start } from "millrace";
import { engineRoutes, pullRoutes, roomRoutes } from "millrace/http";
import { engineLanes, laneObject } from "millrace/lanes";
import {
  AlertChanged,
  alertSender,
  armKeeper,
  BulkActionRun,
  bulkAction,
  callbackSender,
  catalog,
  dispatch,
  keeper,
  entrypoint as ofWorkflow,
} from "millrace/worker";
import { cartConsumer, takeOrder } from "../docs/examples/cart.ts";
import { chargeOrder, checkoutConsumers, mailReceipt } from "../docs/examples/checkout.ts";
import { publishPage, publishSite } from "../docs/examples/children.ts";
import { compressFile } from "../docs/examples/compress.ts";
import { digestConsumers, mailDigest, sendDigest } from "../docs/examples/digest.ts";
import { buildSite, recordPayment } from "../docs/examples/inbound.ts";
import { runTask, taskConsumers } from "../docs/examples/order-tasks.ts";
import { followParcel, parcelConsumers } from "../docs/examples/parcel.ts";
import { changePlan, planConsumer } from "../docs/examples/plans.ts";
import { routeConsumer } from "../docs/examples/router.ts";
import { changeAddress, customerConsumer } from "../docs/examples/turns.ts";
import { boundSteps, invoked } from "../platform-limits.ts";
import { routesOf, startsOf } from "./consumers.ts";
import { lab, labRoute, limitedLabs } from "./lab.ts";
import { ownLanes } from "./lanes.ts";
import { ProbeFollow, ProbeRouted, ProbeSignal } from "./messages.ts";
import { halfListed, pullQueues } from "./pull.ts";
import { rooms } from "./rooms.ts";
import { make, routedRow, routing } from "./routing.ts";
import { sharedConsumers, tellShared } from "./shared.ts";
import { runStruck } from "./strikes.ts";
import { blocked, heldUp, paired, parked, turnConsumers } from "./turns.ts";
import { countDone, followProbe, probe, whenDone } from "./workflows.ts";

export { Counter } from "millrace/counters";
export { RateLimit } from "millrace/limits";
export { Lock } from "millrace/locks";
export { Recorder } from "millrace/worker";
export { Cart } from "../docs/examples/cart.ts";
export { OrderRoom } from "../docs/examples/order-room.ts";
export { Router } from "../docs/examples/router.ts";
export { Listener } from "./listener.ts";
export { AlonePullQueues, PullQueues } from "./pull.ts";
export { Rooms } from "./rooms.ts";

const sendAlert = alertSender();
const sendCallback = callbackSender();

export const app = catalog({
  consumers: [
    startsOf(probe, followProbe, lab, ...Object.values(limitedLabs)),
    routesOf(
      labRoute,
      whenDone,
      on(ProbeSignal, signal()),
      on(
        ProbeRouted,
        project(({ payload, envelope }) => routedRow(envelope.idempotency_key, payload.name)),
        sendEach(ProbeFollow, ({ payload: { name, parts } }) => parts.map((step) => ({ name, step }))),
        call(async ({ payload: { name, shared }, once }) => {
          if (routing.failing.has(name)) throw new Error(`The call of ${name} failed.`);
          const get = () => once(shared ?? name, () => make(shared ?? name));
          await get().catch(get);
        }),
      ),
    ),
    ...parcelConsumers,
    ...turnConsumers,
    customerConsumer,
    ...checkoutConsumers,
    ...digestConsumers,
    ...taskConsumers,
    planConsumer,
    defineConsumer({ queue: recordPayment.on.queue, starts: [recordPayment, buildSite, compressFile, publishPage, publishSite] }),
    cartConsumer,
    routeConsumer,
    ...sharedConsumers,
    defineConsumer({ queue: AlertChanged.queue, routes: [on(AlertChanged, start(sendAlert))] }),
    defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }),
  ],
  callbacks: sendCallback,
  async onConfirmed(_env, events) {
    if (routing.confirmFails) throw new Error("The sender does not answer.");
    routing.confirmed.push(...events);
  },
});

/** The class of a workflow. The instances of the class have the limits of the platform. */
// biome-ignore lint/suspicious/noExplicitAny: a list of workflows has all payload types
function entrypoint(workflow: any, catalog: typeof app): ReturnType<typeof ofWorkflow> {
  return class extends ofWorkflow(workflow, catalog) {
    override run(event: Parameters<typeof runStruck>[1], steps: Parameters<typeof runStruck>[2]): Promise<unknown> {
      return invoked("instance", () => super.run(event, boundSteps(steps)));
    }
  };
}

export class Lanes extends engineLanes(app, ownLanes) {}
/** Lane objects of a Worker without a catalog. */
export class AloneLanes extends laneObject(ownLanes) {}

export class Probe extends entrypoint(probe, app) {}
export class CountDone extends entrypoint(countDone, app) {}
export class Lab extends entrypoint(lab, app) {
  override run(event: Parameters<typeof runStruck>[1], steps: Parameters<typeof runStruck>[2]): Promise<unknown> {
    return runStruck((...given) => super.run(...given), event, steps);
  }
}
export class LabOne extends entrypoint(limitedLabs.one, app) {}
export class LabTwo extends entrypoint(limitedLabs.two, app) {}
export class LabThrottled extends entrypoint(limitedLabs.throttled, app) {}
export class LabDebounced extends entrypoint(limitedLabs.debounced, app) {}
export class TellShared extends entrypoint(tellShared, app) {}
export class FollowProbe extends entrypoint(followProbe, app) {}
export class TurnBlocked extends entrypoint(blocked.workflow, app) {}
export class TurnParked extends entrypoint(parked.workflow, app) {}
export class TurnHeld extends entrypoint(heldUp.workflow, app) {}
export class TurnPaired extends entrypoint(paired.workflow, app) {}
/** The example of docs/turns.md. */
export class ChangeAddress extends entrypoint(changeAddress, app) {}
/** The example of docs/to-events.md. */
export class ChargeOrder extends entrypoint(chargeOrder, app) {}
export class MailReceipt extends entrypoint(mailReceipt, app) {}
/** The examples of docs/patterns.md. */
export class SendDigest extends entrypoint(sendDigest, app) {}
export class MailDigest extends entrypoint(mailDigest, app) {}
export class RunTask extends entrypoint(runTask, app) {}
export class TakeOrder extends entrypoint(takeOrder, app) {}
export class ChangePlan extends entrypoint(changePlan, app) {}
export class CompressFile extends entrypoint(compressFile, app) {}
/** The example of docs/children.md. */
export class PublishPage extends entrypoint(publishPage, app) {}
export class PublishSite extends entrypoint(publishSite, app) {}
/** The examples of docs/inbound.md. */
export class RecordPayment extends entrypoint(recordPayment, app) {}
export class BuildSite extends entrypoint(buildSite, app) {}
/** The example of docs/authoring.md that waits for the outside world. */
export class FollowParcel extends entrypoint(followParcel, app) {}
export class SendAlert extends entrypoint(sendAlert, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}
export class SendCallback extends entrypoint(sendCallback, app) {}

/** Its catalog is asked for alerts alone: the probe has no schedules. */
export class Keeper extends keeper({ catalog: app }) {
  /** The number of the keeper's running rounds that its own alarm started. */
  underWay = 0;

  override async alarm(info?: AlarmInvocationInfo): Promise<void> {
    this.underWay++;
    await invoked("alarm", () => super.alarm(info)).finally(() => this.underWay--);
  }
}

const consume = dispatch(app);
const api = engineRoutes(app, {
  routes: [pullRoutes([...pullQueues, halfListed]), roomRoutes(rooms)],
  knowsCallers: ["client", "rooms"],
});

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return invoked("fetch", async () => api.fetch(request, env, ctx));
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return invoked("queue", async () => consume(batch, env));
  },
} satisfies ExportedHandler<Env>;
