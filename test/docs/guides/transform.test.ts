/** docs/transform.md, walked. */
import { walk } from '../../support/guide-walker.ts'

await walk('transform')
