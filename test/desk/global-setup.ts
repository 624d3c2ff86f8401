import type { TestProject } from "vitest/node";
import { openDesk } from "./desk.ts";

declare module "vitest" {
  interface ProvidedContext {
    deskUrl: string;
  }
}

/** One desk for all test files; each test uses its own customers. */
export default async function setup(project: TestProject): Promise<() => void> {
  const { url, server } = await openDesk(0);
  project.provide("deskUrl", url);
  return () => void server.close();
}
