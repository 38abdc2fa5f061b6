-- Decides requests, one after the other, at one instant. The caller gets the states as they were
-- found and the time, and works out what to tell: the numbers of a verdict are not computed here.
--
-- ARGV[1] is packed: the rules, each with a cost; the requests that nothing connects, which are
-- the first keys; how far the time of keys runs ahead, where it does; the rules of the other keys;
-- and what is asked of those.
local packed = cmsgpack.unpack(ARGV[1])
local rules, alone, phases, keys, requests = unpack(packed)
-- Each key's state as it was found. Or in its place: the value is none of ours; its verdicts are
-- told one by one; or something else was there when it was written.
local found = {}
local DAMAGED, TOLD, OCCUPIED = 1, 2, 3
local told = {}

-- A state in three parts: nil when it is none of ours.
local function read(it, rule, value)
  if value then return it.read(rule, value) end
  if it.fresh then return it.fresh() end
  return 0, 0, 0
end
