import { askerOf } from "../api-client.ts";

/** Creates a link that signs a browser in to the console. The link works once, within ten minutes, and does not contain the token. */
export async function signInLink(url: string, token: string): Promise<string> {
  const { code } = await askerOf(url, token)<{ code: string }>("POST", "/v1/sign-in-codes", { reason: "a link to the console" });
  return `${url}/console#code=${code}`;
}
