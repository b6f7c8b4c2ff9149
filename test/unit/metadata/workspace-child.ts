/** A process of its own that opens a metadata file and creates one workspace: `spec-as-json sealing-key-hex name`. */
import { mintApiKey } from '../../../src/metadata/key-tokens.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'

const [spec, keyHex, name] = process.argv.slice(2)
if (spec === undefined || keyHex === undefined || name === undefined)
  throw new Error('three arguments expected')
const metadata = await openMetadata(JSON.parse(spec), Buffer.from(keyHex, 'hex'))
await metadata.workspaces.create(name, mintApiKey('first').key)
await metadata.close()
