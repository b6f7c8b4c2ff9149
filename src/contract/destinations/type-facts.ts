/** The facts about a destination type that every program needs: one object per type, in `<type>.fields.ts`. Free of schemas. */
import type { Config, ConfigFields } from './config-field.ts'
import type { ConnectionUrl } from './connection-url.ts'

export interface TypeFacts {
  /** In names such as orders/database, and for --type. */
  readonly kind: string
  readonly title: string
  /** One sentence, for someone who chooses a type. */
  readonly summary: string
  /** Pages in docs/, each with its title. */
  readonly guides: readonly (readonly [page: string, title: string])[]
  /** Commands that create a destination of the type, in a pipe called orders. */
  readonly examples: readonly string[]
  readonly fields: ConfigFields
  /** Accepts column mappings; object stores use them only with format parquet. */
  readonly hasColumns: boolean
  /** Has a table, and a server whose key is pinned. */
  readonly isDatabase: boolean
  /** Several requests of one batch can be in flight. */
  readonly hasConcurrency: boolean
  /** Consumers fetch its messages: nothing is sent, retried, parked or transformed. */
  readonly isPulled: boolean
  /** The thing to fix when it rejects a record. */
  readonly receiver: string
  /** docs/dev/contract.md#destinations: the flush plan where neither the destination nor its pipe has one. */
  readonly defaultFlush: {
    readonly maxRecords: number
    readonly maxBytes: number
    readonly maxSeconds: number
  }
  readonly url?: ConnectionUrl
  /** Where it puts records, in one short text. */
  target(config: Config): string
  /** Two configs with equal values here deliver to the same target. */
  targetKey(config: Config): readonly unknown[]
  /**
   * The server that gets the secrets; null: always the same one. Compared, never shown. It decides about TLS as well: the scheme
   * of a URL, the host of a database.
   */
  server(config: Config): string | null
  /** How strictly the server's certificate is verified; 0: any server that responds gets the secrets. */
  verification?(config: Config): number
}

export const sendAtOnce = { maxRecords: 1_000, maxBytes: 4 * 1024 * 1024, maxSeconds: 0 } as const
