/** SQLite keeps the metadata port, and PostgreSQL does (`on-postgresql.test.ts`). */
import t from 'tap'
import { testMetadataPort } from './conformance.ts'
import { openFile, testFile } from './fixture.ts'

testMetadataPort(t, async (t) => {
  const options = testFile(t)
  return {
    async open() {
      const metadata = await openFile(options)
      t.teardown(() => metadata.close())
      return metadata
    },
  }
})
