/** A SQL database: its config as clients send it, and as its drivers work with it. Rules: spec "Destination". */
import Type, { type Static } from 'typebox'
import { closed, text } from './fields.ts'

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
  }
}
