import type { TestProject } from "vitest/node";
import { startUpstream } from "./start.ts";

declare module "vitest" {
  interface ProvidedContext {
    upstreamUrl: string;
    /** The number of commands that the test of a burst requests. */
    burst: number;
  }
}

/** One upstream for all test files; each test uses its own subjects. */
export default async function setup(project: TestProject): Promise<() => void> {
  const upstream = await startUpstream();
  project.provide("upstreamUrl", upstream.url);
  project.provide("burst", Number(process.env.BURST ?? 1000));
  return upstream.stop;
}
