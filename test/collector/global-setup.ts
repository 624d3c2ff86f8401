import type { TestProject } from "vitest/node";
import { startCollector } from "./start.ts";

declare module "vitest" {
  interface ProvidedContext {
    collectorUrl: string;
  }
}

/** One collector for all test files; each test queries its own traces. */
export default async function setup(project: TestProject): Promise<() => void> {
  const collector = await startCollector();
  project.provide("collectorUrl", collector.url);
  return collector.stop;
}
