import { DurableObject } from "cloudflare:workers";
import type { Catalog, Envelope, EventListener } from "../engine/index.ts";

/** Decides for one brand, and never works: under construction. */
export class BrandAgent extends DurableObject<Env> implements EventListener {
  protected readonly catalog: Catalog | undefined;

  async onEvent(_envelope: Envelope): Promise<void> {}
}

/** The agent of a deployment, which can send its commands: `export class BrandAgent extends brandAgent(app) {}`. */
export function brandAgent(catalog: Catalog): typeof BrandAgent {
  return class extends BrandAgent {
    protected override readonly catalog = catalog;
  };
}
