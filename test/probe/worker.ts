import { DurableObject } from "cloudflare:workers";
import { createApi } from "../../src/api/app.ts";
import {
  armKeeper,
  catalog,
  consumeCommands,
  consumeEvents,
  dispatch,
  type Envelope,
  entrypoint,
  on,
  send,
  signal,
  start,
  tell,
} from "../../src/engine/index.ts";
import { ProbeDone, ProbeFollow, ProbeSignal, probeCommands, probeEvents } from "./messages.ts";
import { countDone, followProbe, probe } from "./workflows.ts";

export { Keeper, Recorder } from "../../src/engine/index.ts";

export class Probe extends entrypoint(probe) {}
export class CountDone extends entrypoint(countDone) {}
export class FollowProbe extends entrypoint(followProbe) {}

/** An object that events are told to: it counts each once, by its key. */
export class Listener extends DurableObject {
  async onEvent(envelope: Envelope): Promise<void> {
    await this.ctx.storage.put(envelope.idempotency_key, envelope.message_type);
  }

  async heard(): Promise<number> {
    return (await this.ctx.storage.list()).size;
  }
}

export const app = catalog({
  workflows: [probe, countDone, followProbe],
  routes: [
    on(
      ProbeDone,
      start(countDone),
      send(ProbeFollow, ({ name, step }) => ({ name, step })),
      tell("LISTENER", ({ name }) => name),
    ),
    on(ProbeSignal, signal()),
  ],
});

const consume = dispatch(app, [consumeCommands(probeCommands, app), consumeEvents(probeEvents, app)]);
const api = createApi(app);

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return api.fetch(request, env, ctx);
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
} satisfies ExportedHandler<Env>;
