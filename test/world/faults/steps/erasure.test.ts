/**
 * A deletion of records whose disk fails, or that is killed, at any step: repeated, it leaves nothing of them in any file,
 * and nothing else that was acknowledged is lost.
 */
import { testSteps } from '../step-tests.ts'

testSteps('erasure', { errors: ['EIO', 'ENOSPC'], always: /^(rename|unlink).*\.db$/ })
