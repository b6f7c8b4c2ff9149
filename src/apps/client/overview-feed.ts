/** Reads overviews one after another. Each request names the known revision and receives only the changes. */
import type { Overview } from '../../contract/overview.ts'
import type { Client } from './client.ts'
import { ApiFailure, commandFailure, type Failure } from './failure.ts'
import { continued } from './overview.ts'

export class OverviewFeed {
  readonly #client: Pick<Client, 'call' | 'url'>
  #last: Overview | null = null

  constructor(client: Pick<Client, 'call' | 'url'>) {
    this.#client = client
  }

  /** The complete current state. A failed request changes nothing. */
  async next(signal?: AbortSignal): Promise<Overview> {
    const before = this.#last
    const answer = await this.#client
      .call('getOverview', { query: { since: before?.revision }, signal })
      .catch((error: unknown) => {
        throw isUnknownRoute(error) ? olderDaemon(this.#client.url) : error
      })
    this.#last = continued(before, answer.body)
    return this.#last
  }
}

function isUnknownRoute(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 404
}

/** During an upgrade, the program can be newer than the running daemon. */
function olderDaemon(url: string): Failure {
  return commandFailure(
    `the daemon at ${url} is older than this pipectl: it has no overview (GET /v1/overview)`,
    'start the daemon of this version, or use the pipectl that came with the one that runs',
  )
}
