import { walk } from '../../support/guide-walker.ts'

await walk('backup-and-recovery')
