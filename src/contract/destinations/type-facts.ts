/**
 * The facts about a destination type that every program needs. One object per type, in `<type>.fields.ts`. Free of
 * schemas.
 */
import type { Config, ConfigFields } from './config-field.ts'
import type { ConnectionUrl } from './connection-url.ts'

export interface TypeFacts {
  /** The short name in default destination names, such as orders/database, and in --type. */
  readonly kind: string
  readonly title: string
  /** One sentence that helps users choose a type. */
  readonly summary: string
  /** The pages in docs/ about the type, each with its title. */
  readonly guides: readonly (readonly [page: string, title: string])[]
  /** Commands that create a destination of the type in a pipe called orders. */
  readonly examples: readonly string[]
  readonly fields: ConfigFields
  /** Accepts column mappings. Object stores use them only with the format parquet. */
  readonly hasColumns: boolean
  /** Has a table. */
  readonly isDatabase: boolean
  /** Has a server whose public key is pinned if its certificate is not verified. */
  readonly hasServerKey: boolean
  /** Its table is in a file of the daemon, which pipectl can query. File and table are named after the pipe. */
  readonly isTableFile: boolean
  /** Several requests of one batch can be in flight. */
  readonly hasConcurrency: boolean
  /** Consumers fetch the messages. Nothing is sent, retried, parked or transformed. */
  readonly isPulled: boolean
  /** The name of the thing to fix when it rejects a record, such as "table". */
  readonly receiver: string
  /** The flush plan when neither the destination nor its pipe sets one (docs/dev/contract.md#destinations). */
  readonly defaultFlush: {
    readonly maxRecords: number
    readonly maxBytes: number
    readonly maxSeconds: number
  }
  readonly url?: ConnectionUrl
  /** A short description of where records are stored. */
  target(config: Config): string
  /** Two configs with equal values here deliver to the same target. */
  targetKey(config: Config): readonly unknown[]
  /**
   * Identifies the server that receives the secrets; null if it is always the same. It also determines the TLS
   * settings: the scheme of a URL, the host of a database. Only compared, never shown.
   */
  server(config: Config): string | null
  /** The host of that server with its port, without secrets, such as `db.example.com:5432`. Empty: there is none. */
  shownServer(config: Config): string
  /** How strictly the server's certificate is verified. 0: any server that responds receives the secrets. */
  verification?(config: Config): number
}

export const sendAtOnce = { maxRecords: 1_000, maxBytes: 4 * 1024 * 1024, maxSeconds: 0 } as const
