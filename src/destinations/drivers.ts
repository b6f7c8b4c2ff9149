/** Which driver serves a destination: a plain table by `destination_type` and, for databases, dialect. */
import type { DestinationType } from '../contract/destination.ts'
import type { DriverModule } from './driver.ts'
import { httpEndpoint } from './http-endpoint.ts'
import { objectStore } from './object-store.ts'
import { mysql } from './sql/mysql.ts'
import { postgresql } from './sql/postgresql.ts'

type Config = Readonly<Record<string, unknown>>

const byDialect: Record<string, DriverModule> = {
  postgresql,
  postgres: postgresql,
  pg: postgresql,
  mysql,
  mariadb: mysql,
}

/** The driver of a destination. A pull lane has none: its consumer comes to it, so it must not be asked for. */
export function driverFor(type: DestinationType, config: Config): DriverModule {
  switch (type) {
    case 'destination_database': {
      const module = byDialect[String(config.dialect ?? config.sql_dialect ?? 'postgresql')]
      if (module === undefined) throw new Error('the dialect was not checked before the driver was asked for')
      return module
    }
    case 'destination_object_store':
      return objectStore
    case 'destination_http_endpoint':
      return httpEndpoint
    case 'destination_pull':
      throw new Error('a pull destination has no driver')
  }
}
