import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { freePort, portFrom, requireFree } from "../../packages/millrace/cli/local/ports.ts";

async function portTakenOn(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

it.each(["127.0.0.1", "0.0.0.0"])("a port in use on %s is reported, with an alternative", async (host) => {
  const port = await portTakenOn(host);
  await expect(requireFree(port)).rejects.toThrow(
    `Port ${port} is in use. Stop the process that listens there, or choose another port: npx millrace dev --port ${port + 1}`,
  );
});

it("a port in use is reported with the typed command and another port", async () => {
  const [port, typed] = [await portTakenOn("127.0.0.1"), "npm run demo --"];
  await expect(requireFree(port, typed)).rejects.toThrow(`or choose another port: npm run demo -- --port ${port + 1}`);
  expect(() => portFrom(["--port", "http"], undefined, 8787, typed)).toThrow("such as: npm run demo -- --port 9000");
});

it("a port that is in use for a moment counts as free, because the last process of a stopped engine may still hold it", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  setTimeout(() => server.close(), 300);
  await requireFree((server.address() as AddressInfo).port);
  expect(server.listening).toBe(false);
});

it("a free port is accepted", async () => {
  await requireFree(await freePort());
});

it("the port is the requested one, by argument or by PORT, or the default", () => {
  expect(portFrom(["--port", "9001"], "9002", 8787)).toBe(9001);
  expect(portFrom(["--port=9001"], undefined, 8787)).toBe(9001);
  expect(portFrom([], "9002", 8787)).toBe(9002);
  expect(portFrom([], "", 8787)).toBe(8787);
});

it.each([["--port", "http"], ["--port"], ["--port=70000"]])("the port %s %s is refused", (...args) => {
  expect(() => portFrom(args, undefined, 8787)).toThrow("is not a port. Choose one from 1 to 65535");
});
