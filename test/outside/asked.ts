/** The input of a program of test/outside/programs. */
export interface Asked {
  baseUrl: string;
  token: string;
  fetch: (request: Request) => Promise<Response>;
  keywords: readonly [string, string];
  correlationId: string;
  /** A budget whose name contains characters that a URL has to escape. */
  account: string;
}

/** The results of the program's client. */
export interface Learned {
  instance: { id: string; workflow: string; status: string; result: unknown };
  steps: number;
  /** The instances of the job, page by page. */
  pages: string[][];
  /** The refused fields of an invalid payload. */
  refused: string[];
  replayed: boolean;
  account: string;
  rules: unknown;
}
