const DEFAULT_PUBLIC_URL = "http://localhost:8787";

/** Returns the public URL of a path of this Worker: below `PUBLIC_URL`, by default on the local machine. */
export function publicUrl(env: { PUBLIC_URL?: string }, path: string): string {
  const origin = (env.PUBLIC_URL || DEFAULT_PUBLIC_URL).replace(/\/+$/, "");
  return `${origin}/${path.split("/").map(encodeURIComponent).join("/")}`;
}
