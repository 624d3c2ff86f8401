import { expect, it } from "vitest";
import { terminate } from "../../../packages/millrace/src/operate/carry-out/platform-runs.ts";

const refusing = (message: string) => ({ terminate: () => Promise.reject(new Error(message)) }) as unknown as WorkflowInstance;

it("terminating a platform instance that ends by itself at the same moment succeeds; any other error is thrown", async () => {
  await terminate(refusing("(instance.cannot_terminate) Cannot terminate instance since its on a finite state"));
  await expect(terminate(refusing("The platform is busy."))).rejects.toThrow("busy");
});
