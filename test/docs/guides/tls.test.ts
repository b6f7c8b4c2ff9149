/** docs/tls.md, walked. */
import { walk } from '../../support/guide-walker.ts'

await walk('tls')
