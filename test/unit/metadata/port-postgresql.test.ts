/** PostgreSQL keeps the metadata port. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openMetadata } from '../../../src/metadata/open.ts'
import { startPostgres } from '../../support/postgres.ts'
import { testMetadataPort } from './conformance.ts'

const server = await startPostgres()
t.teardown(() => server.stop())
let databases = 0

testMetadataPort(t, async (t) => {
  const name = `metadata_${++databases}`
  await server.query(`CREATE DATABASE ${name}`)
  const url = `postgres://postgres:${server.password}@127.0.0.1:${server.port}/${name}`
  const sealingKey = randomBytes(32)
  return {
    async open() {
      const metadata = await openMetadata({ kind: 'postgresql', url }, sealingKey)
      t.teardown(() => metadata.close())
      return metadata
    },
  }
})
