-- Decides requests, one after the other, at one instant. The caller gets the states as they were
-- found and the time, and works out the rest: the numbers of a verdict are not computed here.
--
-- ARGV[1] is packed: the rules, each with a cost; for each rule, how many unconnected keys use it,
-- which come first; how many requests each of those has, if one has several; how far the time of
-- keys runs ahead, if it does; the rules of the other keys; and what is asked of those.
local rules, runs, times, phases, keys, requests = unpack(cmsgpack.unpack(ARGV[1]))
-- Each key's state as it was found. Or in its place: the value is not one of ours; its verdicts are
-- reported one by one; or something else was there when it was written.
local found = {}
local DAMAGED, TOLD, OCCUPIED = 1, 2, 3

-- The state of keys from `first` to `last`.
local function look(first, last)
  local values = call('MGET', unpack(KEYS, first, last))
  for i = 1, #values do found[first + i - 1] = values[i] end
end

-- Keys that need more than a swift loop, each followed by its rule.
local left = {}
local function leave(key, rule)
  left[#left + 1], left[#left + 2] = key, rule
end
