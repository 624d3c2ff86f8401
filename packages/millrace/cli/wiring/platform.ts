import { registerHooks } from "node:module";

/** Substitutes for the platform's modules, which are sufficient to load the sources. */
const PLATFORM = `class Base {}
  export { Base as DurableObject, Base as RpcTarget, Base as WorkerEntrypoint, Base as WorkflowEntrypoint };
  export class NonRetryableError extends Error {}
  export const env = {}, exports = {}, waitUntil = () => undefined;`;

/** Replaces the platform's modules in this process. */
export function standIn(): void {
  registerHooks({
    resolve: (name, context, next) =>
      name.startsWith("cloudflare:")
        ? { url: `data:text/javascript,${encodeURIComponent(PLATFORM)}`, format: "module", shortCircuit: true }
        : next(name, context),
  });
}
