/** The input of a program of test/outside/programs. */
export interface Asked {
  baseUrl: string;
  token: string;
  fetch: (request: Request) => Promise<Response>;
  keywords: readonly [string, string];
  correlationId: string;
  /** A budget with a name of characters that a URL has to escape. */
  account: string;
}

/** The findings of its client. */
export interface Learned {
  instance: { id: string; workflow: string; status: string; result: unknown };
  steps: number;
  /** The instances of the job, page by page. */
  pages: string[][];
  /** Which fields of a wrong payload were refused. */
  refused: string[];
  replayed: boolean;
  account: string;
  rules: unknown;
}
