/** Which driver serves a destination: contract "destination_type and its config", spec `dialect` and its aliases. */
import t from 'tap'
import { driverFor } from '../../src/destinations/drivers.ts'
import { httpEndpoint } from '../../src/destinations/http-endpoint.ts'
import { objectStore } from '../../src/destinations/object-store.ts'
import { mysql } from '../../src/destinations/sql/mysql.ts'
import { postgresql } from '../../src/destinations/sql/postgresql.ts'

t.test('destination_type, and for databases dialect or sql_dialect, choose the driver', async (t) => {
  const database = (config: Record<string, unknown>) => driverFor('destination_database', config)
  t.equal(database({}), postgresql, 'postgresql is the default')
  for (const dialect of ['postgresql', 'postgres', 'pg']) {
    t.equal(database({ dialect }), postgresql, dialect)
    t.equal(database({ sql_dialect: dialect }), postgresql, `sql_dialect ${dialect}`)
  }
  for (const dialect of ['mysql', 'mariadb']) {
    t.equal(database({ dialect }), mysql, dialect)
    t.equal(database({ sql_dialect: dialect }), mysql, `sql_dialect ${dialect}`)
  }
  t.equal(driverFor('destination_object_store', {}), objectStore)
  t.equal(driverFor('destination_http_endpoint', {}), httpEndpoint)
  t.throws(() => driverFor('destination_pull', {}), /no driver/)
})
