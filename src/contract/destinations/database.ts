/** A SQL database: its config as clients send it, and as its drivers work with it. Rules: docs/dev/contract.md#destinations. */
import Type, { type Static } from 'typebox'
import { closed, nullable, text } from './fields.ts'

const dialectNames = {
  postgresql: 'postgresql',
  postgres: 'postgresql',
  pg: 'postgresql',
  mysql: 'mysql',
  mariadb: 'mysql',
} as const
export type Dialect = (typeof dialectNames)[keyof typeof dialectNames]
const databaseDialects = [
  'postgresql',
  'postgres',
  'pg',
  'mysql',
  'mariadb',
] as const satisfies (keyof typeof dialectNames)[]

const tlsVerifyModes = ['none', 'ca', 'full'] as const
const pem = (maxLength: number, description: string) =>
  Type.Optional(nullable(Type.String({ maxLength, description })))

export const DatabaseConfig = Type.Object(
  {
    host: text(255),
    port: Type.Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 65535 }), Type.String({ pattern: '^[0-9]{1,5}$' })], {
        description: 'Default: 5432 for PostgreSQL, 3306 for MySQL and MariaDB.',
      }),
    ),
    database: text(),
    username: text(),
    password: Type.String({ maxLength: 4096 }),
    table: text(1000, 'table or schema.table'),
    dialect: Type.Optional(Type.Enum([...databaseDialects], { description: 'Default: postgresql.' })),
    sql_dialect: Type.Optional(Type.Enum([...databaseDialects], { description: 'The same as dialect.' })),
    exactly_once: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Every record is stored once, also after a crash or a lost reply and without a dedupe_id column: how far the lane has come is kept in the table _pipectl_lanes beside the destination table, in the same transaction.',
      }),
    ),
    tls_verify: Type.Optional(
      nullable(
        Type.Enum([...tlsVerifyModes], {
          description:
            'none: whose certificate the server shows is not looked at; the first one’s key is pinned. ca: it must be of a trusted authority. full: and for host. Default: full with tls_ca, else none. ca and full need TLS on loopback too.',
        }),
      ),
    ),
    tls_ca: pem(
      65_536,
      'PEM: the authorities whose certificates are trusted, instead of the public ones. Needs tls_verify ca or full.',
    ),
    tls_cert: pem(
      65_536,
      'PEM: the certificate that the server is shown, and those that lead to its authority. Needs tls_key, and TLS on loopback too.',
    ),
    tls_key: pem(16_384, 'PEM: the private key of tls_cert, without a passphrase. Secret.'),
  },
  closed,
)
export type DatabaseConfig = Static<typeof DatabaseConfig>

export interface ResolvedDatabaseConfig {
  host: string
  port: number
  database: string
  username: string
  password: string
  table: string
  dialect: Dialect
  exactly_once: boolean
  /** Which certificates the server must show and is shown; none: docs/dev/contract.md#database-tls. */
  tls?: DatabaseTls
}

export interface DatabaseTls {
  verify: (typeof tlsVerifyModes)[number]
  /** PEM. Null: the public authorities. */
  ca: string | null
  /** Both, or neither. */
  cert: string | null
  key: string | null
}

const defaultPorts: Record<Dialect, number> = { postgresql: 5432, mysql: 3306 }

export function resolveDatabaseConfig(config: DatabaseConfig): ResolvedDatabaseConfig {
  const { host, database, username, password, table } = config
  const dialect = dialectNames[config.dialect ?? config.sql_dialect ?? 'postgresql']
  return {
    host,
    port: Number(config.port ?? defaultPorts[dialect]),
    database,
    username,
    password,
    table,
    dialect,
    exactly_once: config.exactly_once ?? false,
    tls: {
      verify: config.tls_verify ?? (config.tls_ca ? 'full' : 'none'),
      ca: config.tls_ca ?? null,
      cert: config.tls_cert ?? null,
      key: config.tls_key ?? null,
    },
  }
}
